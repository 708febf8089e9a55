--[[
ledger_events: emits what the move of a ledger caused, cause before effect. See no_threshold_crossed for when it is
called.
]]
-- @include base/int64, ledger/thresholds_crossed, log/events

-- charged: whether the operation can have exhausted the ledger. debt_facts: names and values of the event of its debt.
local function ledger_events(events, budget, unit, scope, thresholds, charged, debt_facts)
  local function append(event_type, ...)
    event_append(events, event_type, scope, {'data.unit', unit, ...})
  end
  local function append_threshold(event_type, millionths, direction)
    append(event_type, 'data.threshold_millionths', millionths, 'data.direction', direction, 'data.allocated',
      budget.allocated, 'data.remaining', budget.remaining, 'data.spent', budget.spent, 'data.reserved', budget.reserved)
  end
  local used_before = int64_add(budget.before_spent, budget.before_reserved) or INT64_MAX
  local used = int64_add(budget.spent, budget.reserved) or INT64_MAX
  local crossed, direction = thresholds_crossed(thresholds, int64(budget.allocated), used_before, used)
  for _, millionths in ipairs(crossed) do append_threshold('budget.threshold_crossed', millionths, direction) end
  if budget.debt_by and int64_lt(0, budget.debt_by) then
    append('budget.debt_incurred', 'data.debt_incurred', budget.debt_by, 'data.total_debt', budget.debt,
      'data.overdraft_limit', budget.limit, unpack(debt_facts))
  end
  if charged and int64_lt(0, budget.before_remaining) and not int64_lt(0, budget.remaining) then
    append_threshold('budget.exhausted', 1000000, 'rising')
  end
  if budget.becomes_over then
    append('budget.over_limit_entered', 'data.debt', budget.debt, 'data.overdraft_limit', budget.limit,
      'data.is_over_limit', '1')
  end
end
