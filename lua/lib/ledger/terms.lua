--[[
terms: judges ledgers by their limits over windows as well, behind their own funds; and those that observe, which refuse nothing
but what no figure could hold.
]]
-- @include ledger/evaluate_class, ledger/windows

local TERMS_REASONS = {[2] = 'OVERDRAFT_LIMIT_EXCEEDED', [3] = 'DEBT_OUTSTANDING', [4] = 'BUDGET_EXCEEDED'}

-- Whether the figures of a ledger have room for a hold and its charge.
local function terms_in_range(budget, amount)
  local used = int64_add(budget.spent, budget.reserved)
  return used and int64_add(used, amount) and int64_sub(budget.remaining, amount)
end

-- Returns the class of the first refusal, as evaluate_class has them, and its ledger. `full` in it names the window that refuses:
-- every, limit, used, end. In budgets.observed is what those that observe would have refused: scope by depth, reason, remaining.
local function terms_blocking(budgets, amount, now)
  local class, blocking = 5, nil
  budgets.observed = {}
  for _, budget in ipairs(budgets) do
    local found = evaluate_class(budget, amount)
    if found == 5 and budget.limits then
      budget.full = windows_full(budget, amount, now)
      found = budget.full and 4 or 5
    end
    if budget.observes and found > 1 then
      if found < 5 then
        budgets.observed[#budgets.observed + 1] = {depth = budget.depth, reason = TERMS_REASONS[found], remaining = budget.remaining}
        budgets.would_exceed = budgets.would_exceed or found == 4
      end
      found, budget.full = terms_in_range(budget, amount) and 5 or 4, nil
    end
    if found < class then class, blocking = found, budget end
  end
  return class, blocking
end

-- Returns the first ledger whose funds or limits have no room for a charge.
local function terms_short(budgets, amount, now)
  for _, budget in ipairs(budgets) do
    if not budget.observes then
      if int64_lt(0, amount) and int64_lt(budget.remaining, amount) then return budget end
      budget.full = budget.limits and windows_full(budget, amount, now)
      if budget.full then return budget end
    end
  end
  return nil
end
