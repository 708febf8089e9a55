--[[ budgets_of_keys: the ledgers of the scopes that a request names by their keys. ]]

-- The budgeted ones among the enclosing scopes, root first. nil and the key of a corrupt ledger.
local function budgets_read(keys, first)
  local budgets = {}
  for i = first, #keys do
    local budget = budget_read(keys[i], DEPTHS[i - first + 1])
    if budget == nil then return nil, keys[i] end
    if budget then budgets[#budgets + 1] = budget end
  end
  return budgets
end
