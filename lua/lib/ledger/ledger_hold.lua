--[[
ledger_hold: moves what a ledger holds. First every ledger of an operation is moved in memory, where an overflow or a
hold that is not there is still a refusal; then each is written. The figures as they were stay in before_*.
]]
-- @include base/int64

-- Moves what remains and what is reserved. Returns false when one would leave 64 bits or fall below zero.
local function ledger_move_hold(budget, remaining_by, reserved_by)
  local remaining, reserved = int64_add(budget.remaining, remaining_by), int64_add(budget.reserved, reserved_by)
  if not remaining or not reserved or int64_lt(reserved, 0) then return false end
  budget.before_remaining, budget.before_reserved, budget.before_spent = budget.remaining, budget.reserved, budget.spent
  budget.remaining, budget.reserved = remaining, int64_text(reserved)
  return true
end

local function ledger_write_hold(budget)
  redis.call('HSET', budget.key, 'remaining', int64_text(budget.remaining), 'reserved', budget.reserved)
end
