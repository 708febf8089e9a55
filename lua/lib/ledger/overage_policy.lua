--[[ overage_policy: chooses the rule for a charge beyond the hold, captured when the hold is made. ]]
-- @include access/tenant, ledger/budgets, ledger/overage_policy_known

-- Returns the overage policy of, in this order: request, policy, ledger of the deepest budgeted scope, tenant, built in. nil
-- if the stored one is unknown.
local function overage_policy_of(requested, selected, budgets, settings)
  if requested ~= '' then return requested end
  if selected and selected ~= '-' then return selected end
  local deepest = budgets[#budgets]
  -- A budget that is yet to be created has the one of its template.
  local own = deepest and (deepest.is_virtual and deepest.overage or budget_field(deepest.key, 'commit_overage_policy'))
  local policy = own and own ~= '-' and own or settings[TENANT_OVERAGE] or 'ALLOW_IF_AVAILABLE'
  return overage_policy_known(policy) and policy or nil
end
