--[[ budgets_of_record: the ledgers that a reservation was held on, and no others. ]]

-- A ledger that is gone is corruption: nil and its key.
local function budgets_of_record(prefix, unit, scope_path, depths)
  local budgets = {}
  for text in depths:gmatch('%d+') do
    local depth = tonumber(text)
    local key = prefix .. unit .. ':' .. budget_scope(scope_path, depth)
    local budget = budget_read(key, depth)
    if not budget then return nil, key end
    budgets[#budgets + 1] = budget
  end
  return budgets
end
