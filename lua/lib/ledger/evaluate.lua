--[[
evaluate: decides whether an estimate could be held, and if not, why. Class by class over all scopes: a scope that
lacks funds never hides one that is frozen, over its limit or in debt.
]]
-- @include ledger/evaluate_class

-- Whether funds alone decide: no ledger observes, and the windows of limits have room, as the first line of each says.
local function evaluate_by_funds(budgets, amount, now)
  for i = 1, #budgets do
    local budget = budgets[i]
    if budget.observes then return false end
    if budget.limits then
      local room, end_ms = budget.limits:match('^(%-?%d+) (%d+)\n')
      -- What cannot be read, is named where each window is read.
      room = room and int64_sub(int64(room), budget.reserved)
      if not room or int64_lt(room, amount) or tonumber(end_ms) <= now then return false end
    end
  end
  return true
end

-- Returns nil, or the reason and the ledger that refuses.
local function evaluate_denial(budgets, amount, now)
  local class, blocking = 5, nil
  if budgets.terms and not evaluate_by_funds(budgets, amount, now) then
    -- @cold ledger/terms
    class, blocking = terms_blocking(budgets, amount, now)
  else
    for i = 1, #budgets do
      local found = evaluate_class(budgets[i], amount)
      if found < class then class, blocking = found, budgets[i] end
    end
  end
  if class == 5 then return nil end
  if class == 1 then return blocking.status == 'FROZEN' and 'BUDGET_FROZEN' or 'BUDGET_CLOSED', blocking end
  return class == 2 and 'OVERDRAFT_LIMIT_EXCEEDED' or class == 3 and 'DEBT_OUTSTANDING' or 'BUDGET_EXCEEDED', blocking
end
