--[[
policy_change: gives a tenant's policies another version. The last changes are kept with their versions, so that a replica
that knows an earlier version reads what has changed since, and not all policies.
]]
local POLICY_CHANGES_KEPT = 100

-- An effect. The caller has read the list before its first write.
local function policy_change(tenant_key, policy_changes, version, policy_id)
  local newest = redis.call('LINDEX', policy_changes, 0)
  -- Another release, or an operator by hand, changed the version without a list of changes: replicas read all policies.
  local is_whole = newest and newest:match('^%S+') == redis.call('HGET', tenant_key, 'policies')
  redis.call('HSET', tenant_key, 'policies', version)
  redis.call('LPUSH', policy_changes, version .. ' ' .. policy_id)
  redis.call('LTRIM', policy_changes, 0, is_whole and POLICY_CHANGES_KEPT - 1 or 0)
end
