--[[ evaluate_class: finds the class of the reason for which a ledger refuses a hold. ]]
-- @include base/int64

-- 1: it is not active; 2: over its limit; 3: in debt; 4: it lacks funds; 5: it refuses nothing.
local function evaluate_class(budget, amount)
  return budget.status ~= 'ACTIVE' and 1 or budget.over and 2 or budget.debt ~= '0' and 3
    or int64_lt(budget.remaining, amount) and 4 or 5
end
