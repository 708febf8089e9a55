--[[ overage_policy_known: checks whether a stored word is an overage policy. ]]

local function overage_policy_known(policy)
  return policy == 'REJECT' or policy == 'ALLOW_IF_AVAILABLE' or policy == 'ALLOW_WITH_OVERDRAFT'
end
