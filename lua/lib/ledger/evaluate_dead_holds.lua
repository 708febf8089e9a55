--[[
evaluate_dead_holds: finds holds past their grace period, which an operation that lacks funds may still use.
]]

-- Returns whether the tenant has such holds. swept_until_ms: the clock of the first call, so that a caller sweeps a bounded
-- number.
local function evaluate_dead_holds(due, now, swept_until_ms)
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  local before = swept_until_ms ~= '' and math.min(now, tonumber(swept_until_ms)) or now
  return first[2] and tonumber(first[2]) < before
end
