--[[
admin_access: who may act on a tenant's resources through the admin plane. The admin key was judged before and is told
by an empty key_hash. A tenant's key is judged here, and needs a tenant that has a record.
]]

-- nil, nil and the key's scope filter, or the refusal and why. scope: what the request names, '' for nothing.
local function admin_access_refusal(api_key, tenant_key, key_hash, tenant, permission, scope, now)
  if key_hash == '' then return nil end
  local refusal, why = access_refusal(api_key, key_hash, tenant, permission, now)
  if refusal then return refusal, why end
  if redis.call('EXISTS', tenant_key) == 0 then return 'unauthorized', 'KEY_NOT_OWNED_BY_TENANT' end
  if scope ~= '' and not scope_filter_allows(why, scope) then return 'scope_forbidden' end
  return nil, nil, why
end
