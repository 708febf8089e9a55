--[[
admin_access: checks who may act on a tenant's resources through the admin plane. The admin key was checked before; an
empty key_hash means it. An API key is checked here, and needs a tenant that has a record.
]]
-- @include access/access, access/scope_filter

-- Returns nil, nil and the scope filter of the key, or the refusal and why. scope: what the request names, or ''.
local function admin_access_refusal(api_key, tenant_key, key_hash, tenant, permission, scope, now)
  if key_hash == '' then return nil end
  local refusal, why = access_refusal(api_key, key_hash, tenant, permission, now)
  if refusal then return refusal, why end
  if redis.call('EXISTS', tenant_key) == 0 then return 'unauthorized', 'KEY_NOT_OWNED_BY_TENANT' end
  if scope ~= '' and not scope_filter_allows(why, scope) then return 'scope_forbidden', why end
  return nil, nil, why
end
