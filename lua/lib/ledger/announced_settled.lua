--[[
announced_settled: the part of no_threshold_crossed for a ledger that has announced something. It stays settled until its
use reaches the next threshold, or falls below the band of the announced one after that announcement has become old.
]]
-- @include ledger/announced

local function announced_settled(budget, thresholds, now)
  if budget.debt ~= '0' then return false end
  local threshold, at_ms, exhausted_at_ms = announced_read(budget)
  local allocated, before, after = budget.allocated + 0, budget.before_remaining + 0, budget.remaining + 0
  local least, most, margin = math.min(before, after), math.max(before, after), allocated / 1e6
  -- Without debt, what is used is allocated - remaining.
  for i = 1, #thresholds do
    if thresholds[i] > threshold then
      if least <= (1 - thresholds[i] / 1e6) * allocated + margin then return false end
      break
    end
  end
  if threshold ~= 0 and announced_is_old(at_ms, now)
    and most >= (1 - (threshold - ANNOUNCED_BAND) / 1e6) * allocated - margin then return false end
  if exhausted_at_ms == 0 then return after > 0 or before <= 0 end
  return not announced_is_old(exhausted_at_ms, now) or most < ANNOUNCED_BAND / 1e6 * allocated - margin
end
