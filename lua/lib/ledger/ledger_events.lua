--[[
ledger_events: emits the events of a ledger's move, cause before effect. See no_threshold_crossed for when it is
called.
]]
-- @include base/int64, ledger/announced, ledger/announced_write, ledger/thresholds_crossed, log/events

-- debt_facts: names and values of the event of its debt.
local function ledger_events(events, budget, unit, scope, thresholds, debt_facts)
  local function append(event_type, ...)
    event_append(events, event_type, scope, {'data.unit', unit, ...})
  end
  local function append_threshold(event_type, millionths, direction, remaining, spent, reserved)
    append(event_type, 'data.threshold_millionths', millionths, 'data.direction', direction, 'data.allocated',
      budget.allocated, 'data.remaining', remaining, 'data.spent', spent, 'data.reserved', reserved)
  end
  local now, allocated = events.now, int64(budget.allocated)
  local announced, at_ms, exhausted_at_ms = announced_read(budget)
  local used_before = int64_add(budget.before_spent, budget.before_reserved) or INT64_MAX
  local used = int64_add(budget.spent, budget.reserved) or INT64_MAX
  local fallen, risen, highest =
    thresholds_crossed(thresholds, allocated, used_before, used, announced, announced_is_old(at_ms, now))
  for _, millionths in ipairs(fallen) do
    if int64_lt(used_before, used) then -- fallen before the utilization rose
      append_threshold('budget.threshold_crossed', millionths, 'falling', budget.before_remaining, budget.before_spent,
        budget.before_reserved)
    else
      append_threshold('budget.threshold_crossed', millionths, 'falling', budget.remaining, budget.spent, budget.reserved)
    end
  end
  for _, millionths in ipairs(risen) do
    append_threshold('budget.threshold_crossed', millionths, 'rising', budget.remaining, budget.spent, budget.reserved)
  end
  if budget.debt_by and int64_lt(0, budget.debt_by) then
    append('budget.debt_incurred', 'data.debt_incurred', budget.debt_by, 'data.total_debt', budget.debt,
      'data.overdraft_limit', budget.limit, unpack(debt_facts))
  end
  local most = int64_lt(budget.before_remaining, budget.remaining) and budget.remaining or budget.before_remaining
  if exhausted_at_ms ~= 0 and announced_is_old(exhausted_at_ms, now) and int64_lt(0, most)
    and threshold_reached(most, ANNOUNCED_BAND, allocated) then exhausted_at_ms = 0 end
  if exhausted_at_ms == 0 and int64_lt(0, budget.before_remaining) and not int64_lt(0, budget.remaining) then
    append_threshold('budget.exhausted', 1000000, 'rising', budget.remaining, budget.spent, budget.reserved)
    exhausted_at_ms = now
  end
  announced_write(budget, highest, #risen > 0 and now or at_ms, exhausted_at_ms)
  if budget.becomes_over then
    append('budget.over_limit_entered', 'data.debt', budget.debt, 'data.overdraft_limit', budget.limit,
      'data.is_over_limit', '1')
  end
end
