--[[
overage: decides how much may be charged beyond a hold. One amount for all scopes: a scope that may not go into debt caps
it at its remaining amount, one that may takes the rest as debt up to its limit.
]]
-- @include base/int64

local function int64_min(a, b) return int64_lt(b, a) and b or a end

local function overage_available(budget)
  return int64_lt(0, budget.remaining) and budget.remaining or 0
end

-- Returns a ledger whose remaining amount does not cover the overage, or nil. One that observes covers all.
local function overage_short(budgets, overage)
  for _, budget in ipairs(budgets) do
    if not budget.observes and int64_lt(budget.remaining, overage) then return budget end
  end
  return nil
end

-- Returns a ledger that observes, and whose figures have no room for a charge, or nil.
local function overage_out_of_range(budgets, charge)
  for _, budget in ipairs(budgets) do
    local used = budget.observes and int64_add(budget.spent, budget.reserved)
    if budget.observes and not (used and int64_add(used, charge) and int64_sub(budget.remaining, charge)) then return budget end
  end
  return nil
end

-- Returns the charged part of the overage, or nil, the reason and the ledger that refuses. Sets in each ledger the part
-- that becomes its debt and whether it is over its limit afterwards. Those that observe just spend it.
local function overage_charge(budgets, overage, policy)
  if not int64_lt(0, overage) then return 0 end
  if policy == 'REJECT' then
    local short = overage_short(budgets, overage) or overage_out_of_range(budgets, overage)
    if short then return nil, 'BUDGET_EXCEEDED', short end
    return overage
  end
  local overdraft = policy == 'ALLOW_WITH_OVERDRAFT'
  local charge = overage
  for _, budget in ipairs(budgets) do
    if not budget.observes and not (overdraft and budget.limit ~= '0') and int64_lt(budget.remaining, overage) then
      charge = int64_min(charge, overage_available(budget))
    end
  end
  for _, budget in ipairs(budgets) do
    if not budget.observes and overdraft and budget.limit ~= '0' and int64_lt(budget.remaining, charge) then
      -- The whole overage is compared with the limit, without a sum that could overflow.
      local headroom = int64_sub(budget.limit, budget.debt)
      if headroom == nil or int64_lt(headroom, charge) then return nil, 'OVERDRAFT_LIMIT_EXCEEDED', budget end
    end
  end
  local unbounded = overage_out_of_range(budgets, charge)
  if unbounded then return nil, 'BUDGET_EXCEEDED', unbounded end
  for _, budget in ipairs(budgets) do
    local over = not budget.observes and int64_lt(budget.remaining, overage)
    if not budget.observes and overdraft and budget.limit ~= '0' then
      budget.deficit = int64_sub(charge, int64_min(charge, overage_available(budget)))
      local debt = int64_add(budget.debt, budget.deficit)
      over = debt ~= nil and int64_lt(budget.limit, debt)
    end
    budget.becomes_over = over and not budget.over
    budget.over = budget.over or over
  end
  return charge
end
