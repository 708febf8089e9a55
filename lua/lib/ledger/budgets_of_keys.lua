--[[ budgets_of_keys: reads the ledgers of the scopes that a request names by their keys. ]]
-- @include ledger/budgets

-- Returns the ledgers among the enclosing scopes, root first, in `turn` whether any turns, in `terms` whether any has limits
-- or observes; or nil and the key of a corrupt one. Those that templates would make are among them.
local function budgets_read(keys, first, templates)
  local budgets = {}
  for i = first, #keys do
    local budget = budget_read(keys[i], DEPTHS[i - first + 1])
    if budget == nil then return nil, keys[i] end
    if budget then
      budgets[#budgets + 1] = budget
      budgets.turn, budgets.terms = budgets.turn or budget.turns_at_ms, budgets.terms or budget.limits or budget.observes
    end
  end
  if templates ~= '' then
    -- @cold ledger/templates
    templates_apply(budgets, templates)
  end
  return budgets
end
