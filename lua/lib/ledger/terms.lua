--[[ terms: judges ledgers by their limits over windows as well, behind their own funds. ]]
-- @include ledger/evaluate, ledger/windows

-- Returns the class of the first refusal, as evaluate_class has them, and its ledger. `full` in it names the window that refuses:
-- every, limit, used, end.
local function terms_blocking(budgets, amount, now)
  local class, blocking = 5, nil
  for _, budget in ipairs(budgets) do
    local found = evaluate_class(budget, amount)
    if found == 5 and budget.limits then
      budget.full = windows_full(budget, amount, now)
      found = budget.full and 4 or 5
    end
    if found < class then class, blocking = found, budget end
  end
  return class, blocking
end

-- Returns the first ledger whose funds or limits have no room for a charge.
local function terms_short(budgets, amount, now)
  for _, budget in ipairs(budgets) do
    if int64_lt(0, amount) and int64_lt(budget.remaining, amount) then return budget end
    budget.full = budget.limits and windows_full(budget, amount, now)
    if budget.full then return budget end
  end
  return nil
end
