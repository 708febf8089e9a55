--[[
ledger_quiet: whether the move of a ledger surely caused no event. It is the usual case, and told without defining what
tells of events.
]]

-- What is used is at most allocated - remaining, so it stays below the lowest threshold while remaining stays above the
-- rest. By doubles, with a margin.
local function ledger_quiet(budget, thresholds)
  local least = (1.000001 - thresholds[1] / 1e6) * budget.allocated
  return least >= 0 and budget.remaining + 0 > least and budget.before_remaining + 0 > least
    and (budget.debt_by or 0) == 0 and not budget.over
end

-- Whether the figures that only events are computed from are integers.
local function ledger_sound(budget)
  return int64(budget.spent) and int64(budget.allocated) and int64(budget.debt) and int64(budget.limit)
end

-- Asked before the effects of moves that are not quiet, so that telling of them can't fail afterwards: raises if a log is
-- no stream, answers the key of the first ledger that is corrupt.
local function ledgers_untellable(budgets, event_log, outbox)
  redis.call('XLEN', event_log)
  redis.call('XLEN', outbox)
  for _, budget in ipairs(budgets) do
    if not ledger_sound(budget) then return budget.key end
  end
  return nil
end
