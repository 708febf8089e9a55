--[[ ledger_charge: moves what a ledger has spent and owes, besides what it holds; see ledger_hold. ]]
-- @include base/int64, ledger/ledger_hold

-- Returns false when a figure would leave 64 bits or fall below zero where it must not.
local function ledger_move_charge(budget, remaining_by, reserved_by, spent_by, debt_by)
  if not ledger_move_hold(budget, remaining_by, reserved_by) then return false end
  local spent = int64_add(int64(budget.spent), spent_by)
  if not spent or int64_lt(spent, 0) then return false end
  budget.spent, budget.debt_by = int64_text(spent), debt_by
  if debt_by == 0 then return true end
  local debt = int64_add(budget.debt, debt_by)
  if not debt or int64_lt(debt, 0) then return false end
  budget.debt = int64_text(debt)
  return true
end

-- by: the id of the reservation or usage event, which the ledger keeps while it is over its limit because of it.
local function ledger_write_charge(budget, by)
  redis.call('HSET', budget.key, 'remaining', int64_text(budget.remaining), 'reserved', budget.reserved, 'spent', budget.spent)
  if budget.has_counted then redis.call('HSET', budget.key, 'limits', budget.limits) end
  if budget.debt_by == 0 and not budget.becomes_over then return end
  redis.call('HSET', budget.key, 'debt', budget.debt, 'is_over_limit', budget.over and '1' or '0')
  if budget.becomes_over then redis.call('HSET', budget.key, 'over_limit_by', by) end
end
