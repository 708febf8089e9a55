--[[ time: reads the store's clock, the only one that decides. Milliseconds since 1970, exact as a double. ]]

local DAY_MS = 86400000

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns whether the day of the caller's keys is the clock's day.
local function time_in_day(now, day_start_ms)
  local elapsed = now - day_start_ms
  return elapsed >= 0 and elapsed < DAY_MS
end
