--[[ overage_policy: which rule decides over a charge beyond the hold, captured when the hold is made. ]]

-- The policy that counts: request, selected policy, ledger of the deepest budgeted scope, tenant, built in.
local function overage_policy_of(requested, selected, budgets, settings)
  if requested ~= '' then return requested end
  if selected and selected ~= '-' then return selected end
  local deepest = budgets[#budgets]
  local policy = deepest and deepest.overage_policy or settings[TENANT_OVERAGE] or 'ALLOW_IF_AVAILABLE'
  if policy == 'REJECT' or policy == 'ALLOW_IF_AVAILABLE' or policy == 'ALLOW_WITH_OVERDRAFT' then return policy end
  return nil
end
