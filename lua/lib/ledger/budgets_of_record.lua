--[[ budgets_of_record: reads the ledgers that a reservation holds on, and no others. ]]
-- @include ledger/budgets

-- Returns the ledgers, root first, in `turn` whether any turns, in `terms` whether any has limits
-- or observes; or nil and the key of one that is corrupt or gone.
local function budgets_of_record(prefix, unit, scope_path, depths)
  local budgets, reached, stop = {}, 0, 0
  prefix = prefix .. unit .. ':'
  for depth in depths:gmatch('%d+') do
    while reached < tonumber(depth) do
      reached, stop = reached + 1, scope_path:find('/', stop + 1, true) or #scope_path + 1
    end
    local key = prefix .. scope_path:sub(1, stop - 1)
    local budget = budget_read(key, depth)
    if not budget then return nil, key end
    budgets[#budgets + 1] = budget
    budgets.turn, budgets.terms = budgets.turn or budget.turns_at_ms, budgets.terms or budget.limits or budget.observes
  end
  return budgets
end
