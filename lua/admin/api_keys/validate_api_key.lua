#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_key_checks.rs.
Judges an API key for an operator who was given it, and finds its owner.

reason is '' for a good key, else the first that applies: KEY_NOT_FOUND, INVALID_KEY, KEY_REVOKED, KEY_EXPIRED,
KEY_NOT_OWNED_BY_TENANT, TENANT_NOT_FOUND, INTERNAL_ERROR, TENANT_CLOSED, TENANT_SUSPENDED. The fields behind the owner
follow only where the secret is right.

KEYS[1]  read  api_key  hash  apikey:<key_id>
built    read           hash  tenant:<tenant>

ARGV[1]  tenant_prefix  prefix tenant:
ARGV[2]  key_hash       text            Of the API key; empty for the admin key.

Replies, the first that applies:
  validated reason owner expires_at_ms permissions_scope_filter
Writes:
  Nothing.
]]
local api_key = KEYS[1]
local tenant_prefix, key_hash = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/tenant
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
