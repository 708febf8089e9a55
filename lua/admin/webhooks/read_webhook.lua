#!lua flags=no-writes,allow-oom
--[[
read_webhook: a subscription with its secrets, for what the replica must do before it can change or use it; and how its
owner stands.
KEYS[1] api_key  hash    KEYS[2] webhook  hash    KEYS[3] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[3] permission      ARGV[5] tenant_prefix: a tenant's record is this
ARGV[2] tenant of the key, or ''          ARGV[4] payload_hash            and the tenant
Keys built: the owner's record.
Reply, first that holds: unauthorized why | forbidden permission | idempotency_mismatch | replayed outcome… | not_found
  | found now_ms owner_state record…; owner_state: open | tenant_closed | tenant_suspended | tenant_unreadable
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, access/idempotency
local api_key, webhook, idempotency = unpack(KEYS)
local key_hash, tenant, permission, payload_hash, tenant_prefix = unpack(ARGV)
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_prefix .. tenant, key_hash, tenant, permission, '', now)
if refusal then return {refusal, why} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local owner = redis.call('HGET', webhook, 'tenant')
if not owner or (key_hash ~= '' and owner ~= tenant) then return {'not_found'} end
local refused = tenant_refusal(tenant_prefix .. owner)
if refused == 'tenant_suspended' and key_hash == '' then refused = nil end
return {'found', now, refused or 'open', unpack(redis.call('HGETALL', webhook))}
