--[[
evaluate_dead_holds: finds the holds that matter to an operation that lacks funds: those past their grace period, which it
may still use, and the last one to end.
]]

-- Returns whether the tenant has such holds. until_ms: the clock of the first call, so that a caller sweeps a bounded
-- number.
local function evaluate_dead_holds(due, now, until_ms)
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  local before = until_ms ~= '' and math.min(now, tonumber(until_ms)) or now
  return first[2] and tonumber(first[2]) < before
end

-- Returns when all present holds of the tenant have ended, unless one is extended; '' if there is none.
local function evaluate_last_hold(due)
  return redis.call('ZRANGE', due, -1, -1, 'WITHSCORES')[2] or ''
end
