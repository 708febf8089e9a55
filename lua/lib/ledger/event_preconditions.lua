--[[
event_preconditions: checks the conditions for the events of an operation before the first write; see
no_threshold_crossed.
]]
-- @include base/int64

-- Returns whether the figures that only events are computed from are integers.
local function ledger_sound(budget)
  return int64(budget.spent) and int64(budget.allocated) and int64(budget.debt) and int64(budget.limit)
end

-- Raises if a log is no stream; returns the key of the first ledger that is corrupt, or nil.
local function event_preconditions(budgets, event_log, outbox)
  redis.call('XLEN', event_log)
  redis.call('XLEN', outbox)
  for _, budget in ipairs(budgets) do
    if not ledger_sound(budget) then return budget.key end
  end
  return nil
end
