--[[ event_preconditions: what would keep an operation from telling what it did; see no_threshold_crossed. ]]

-- Whether the figures that only events are computed from are integers.
local function ledger_sound(budget)
  return int64(budget.spent) and int64(budget.allocated) and int64(budget.debt) and int64(budget.limit)
end

-- Asked before the effects of moves that are not eventless, so that telling of them can't fail afterwards: raises if a log is
-- no stream, answers the key of the first ledger that is corrupt.
local function event_preconditions(budgets, event_log, outbox)
  redis.call('XLEN', event_log)
  redis.call('XLEN', outbox)
  for _, budget in ipairs(budgets) do
    if not ledger_sound(budget) then return budget.key end
  end
  return nil
end
