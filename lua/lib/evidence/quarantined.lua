--[[
quarantined: evidence that cannot be signed waits in the stream `unsignable`. Its entries are in no order of time, so each has
the time of the oldest entry up to itself.
]]

-- Returns the time of the oldest entry in quarantine, or another one if that is earlier.
local function quarantined_since(unsignable, other_ms)
  local last = redis.call('XREVRANGE', unsignable, '+', '-', 'COUNT', 1)[1]
  for i = 1, last and #last[2] or 0, 2 do
    if last[2][i] == 'oldest_ms' or last[2][i] == 'entry' then
      other_ms = math.min(other_ms, tonumber(last[2][i + 1]:match('^%d+')) or other_ms)
    end
  end
  return other_ms
end
