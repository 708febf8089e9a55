--[[
evaluate: whether an estimate could be held, and if not, why. Class by class over all scopes: a scope without funds
never hides one that is frozen, over its limit or in debt.
]]

-- nil, or the reason and the ledger that is to blame.
local function evaluate_denial(budgets, amount)
  local class, blocking = 5, nil
  for i = 1, #budgets do
    local budget = budgets[i]
    local found = budget.status ~= 'ACTIVE' and 1 or budget.over and 2 or budget.debt ~= '0' and 3
      or int64_lt(budget.remaining, amount) and 4 or 5
    if found < class then class, blocking = found, budget end
  end
  if class == 5 then return nil end
  if class == 1 then return blocking.status == 'FROZEN' and 'BUDGET_FROZEN' or 'BUDGET_CLOSED', blocking end
  return class == 2 and 'OVERDRAFT_LIMIT_EXCEEDED' or class == 3 and 'DEBT_OUTSTANDING' or 'BUDGET_EXCEEDED', blocking
end

-- Where no scope has a ledger in the unit: the first scope that has some in others, and those units.
local function evaluate_other_units(prefix, unit, scope_path)
  local stop = 0
  repeat
    stop = scope_path:find('/', stop + 1, true)
    local scope = stop and scope_path:sub(1, stop - 1) or scope_path
    local found = {}
    for _, other in ipairs({'USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS'}) do
      if other ~= unit and redis.call('EXISTS', prefix .. other .. ':' .. scope) == 1 then found[#found + 1] = other end
    end
    if #found > 0 then return scope, table.concat(found, ' ') end
  until not stop
  return nil
end

-- Whether the tenant has holds past their grace that an operation short of funds may count on (swept_until_ms: the
-- clock of the first call, so that a caller sweeps a bounded number).
local function evaluate_dead_holds(due, now, swept_until_ms)
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  local before = swept_until_ms ~= '' and math.min(now, tonumber(swept_until_ms)) or now
  return first[2] and tonumber(first[2]) < before
end
