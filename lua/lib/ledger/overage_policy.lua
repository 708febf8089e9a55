--[[ overage_policy: chooses the rule for a charge beyond the hold, captured when the hold is made. ]]
-- @include access/tenant, ledger/budgets, ledger/overage_policy_known

-- Returns the overage policy of, in this order: request, policy, ledger of the deepest budgeted scope, tenant, built in. nil
-- if the stored one is unknown.
local function overage_policy_of(requested, selected, budgets, settings)
  if requested ~= '' then return requested end
  if selected and selected ~= '-' then return selected end
  local deepest = budgets[#budgets]
  local policy = deepest and budget_field(deepest.key, 'commit_overage_policy') or settings[TENANT_OVERAGE]
    or 'ALLOW_IF_AVAILABLE'
  return overage_policy_known(policy) and policy or nil
end
