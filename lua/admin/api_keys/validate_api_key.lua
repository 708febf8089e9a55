#!lua flags=no-writes,allow-oom
--[[
validate_api_key: whether an API key is good, and whose it is, for an operator who was given it.
KEYS[1] api_key  hash
Keys built: the record of the key's tenant, read only.
ARGV[1] key_hash    ARGV[2] tenant_prefix
Reply: validated reason owner, and where the secret is right expires_at_ms permissions scope_filter, each false where it is
missing. reason is '' for a good key, else the first that holds: KEY_NOT_FOUND | INVALID_KEY | KEY_REVOKED | KEY_EXPIRED
  | KEY_NOT_OWNED_BY_TENANT | TENANT_NOT_FOUND | INTERNAL_ERROR | TENANT_CLOSED | TENANT_SUSPENDED
]]
-- @include base/time, access/access, access/tenant
local api_key, key_hash, tenant_prefix = KEYS[1], ARGV[1], ARGV[2]
local owner, expires_at_ms, permissions, scope_filter =
  unpack(redis.call('HMGET', api_key, 'tenant', 'expires_at_ms', 'permissions', 'scope_filter'))
local refused, reason = access_refusal(api_key, key_hash, owner, '', now_ms())
if reason == 'KEY_NOT_FOUND' or reason == 'INVALID_KEY' then return {'validated', reason, owner} end
if not refused then
  reason = ''
  if not owner then
    reason = 'KEY_NOT_OWNED_BY_TENANT'
  else
    local tenant_refused, settings = tenant_refusal(tenant_prefix .. owner)
    if tenant_refused == 'tenant_unreadable' then
      reason = 'INTERNAL_ERROR'
    elseif not settings[TENANT_STATUS] then
      reason = 'TENANT_NOT_FOUND'
    elseif tenant_refused then
      reason = tenant_refused:upper()
    end
  end
end
return {'validated', reason, owner, expires_at_ms, permissions, scope_filter}
