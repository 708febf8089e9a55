#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Reads a subscription with its secrets, for what the replica must do before it can change or use it; and whether its
owner can change it.

owner_state: open, tenant_closed, tenant_suspended or tenant_unreadable.

KEYS[1]  read  api_key      hash  apikey:<key_id>
KEYS[2]  read  webhook      hash  webhook:<subscription_id>
KEYS[3]  read  idempotency  hash  idem:<idempotency_scope>:<digest>  (if digest)
built    read               hash  tenant:<tenant>

ARGV[1]  tenant_prefix  prefix tenant:
ARGV[2]  key_hash       text            Of the API key; empty for the admin key.
ARGV[3]  tenant         text            Of the API key.
ARGV[4]  permission     text
ARGV[5]  subscribes     text or ''
    The scope filter that the subscription is to have, after =; '' where it keeps its own.
ARGV[6]  payload_hash   text or ''

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | idempotency_mismatch | replayed outcome |
  webhook_not_found | found now_ms owner_state record
Writes:
  Nothing.
]]
local api_key, webhook, idempotency = unpack(KEYS)
local tenant_prefix, key_hash, tenant, permission, subscribes, payload_hash = unpack(ARGV)
-- End of the signature.
-- @include access/subscription_fence
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, access/idempotency
local now = now_ms()
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_prefix .. tenant, key_hash, tenant, permission, '', now)
if refusal then return {refusal, why} end
local owner, scope_filter = unpack(redis.call('HMGET', webhook, 'tenant', 'scope_filter'))
if owner == tenant and not (subscription_fence_allows(filter, scope_filter)
    and (subscribes == '' or subscription_fence_allows(filter, subscribes:sub(2)))) then
  return {'scope_forbidden', filter}
end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
if not owner or (key_hash ~= '' and owner ~= tenant) then return {'webhook_not_found'} end
local refused = tenant_refusal(tenant_prefix .. owner)
if refused == 'tenant_suspended' and key_hash == '' then refused = nil end
return {'found', now, refused or 'open', unpack(redis.call('HGETALL', webhook))}
