#!lua flags=allow-oom
--[[
delete_webhook: removes a subscription with its secrets. What is queued for it fails when it is picked up.
KEYS[1] api_key   hash    KEYS[5] watch       hash      KEYS[9]  days       zset
KEYS[2] tenant    hash    KEYS[6] thresholds  hash      KEYS[10] audit_log  stream  of the day
KEYS[3] webhook   hash    KEYS[7] event_log   stream    KEYS[11] chain      hash
KEYS[4] webhooks  zset    KEYS[8] outbox      stream    KEYS[12] unsealed   set
KEYS[13] counts   hash    KEYS[14] failing    zset      KEYS[15] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[4] day_start_ms       ARGV[7] context of events, lines of name and value
ARGV[2] owner                             ARGV[5] subscription_id    ARGV[8..] names and values of the audit entry, all
ARGV[3] day yyyymmdd                      ARGV[6] payload_hash                 but the address
Reply, first that holds: unauthorized why | forbidden permission | clock now_ms | idempotency_mismatch
  | replayed outcome… | not_found | tenant_unreadable | tenant_closed | tenant_suspended
  | deleted version union; version and union are empty unless every partition must learn of them
Writes on deleted: the counts; the record and what led to it go; the event, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days
-- @include ledger/thresholds, admin/watch, admin/counts, log/events, log/audit
-- @include access/idempotency
local api_key, tenant_key, webhook, webhooks, watch, thresholds, event_log, outbox, days, audit_log, chain, unsealed,
  counts, failing, idempotency = unpack(KEYS)
local key_hash, owner, day, day_start_ms, subscription_id, payload_hash, context = unpack(ARGV, 1, 7)

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local stored = redis.call('HMGET', webhook, 'tenant', 'status', 'url')
if stored[1] ~= owner then return {'not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
watch_check(watch, thresholds)
if stored[2] then counts_check(counts) end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', webhooks)
redis.call('ZCARD', failing)

-- Effects: none can fail.
if stored[2] then counts_move(counts, 'webhook', stored[2], nil) end
redis.call('ZREM', failing, subscription_id)
redis.call('ZREM', webhooks, subscription_id)
redis.call('DEL', webhook)
local tenant_record = settings[TENANT_STATUS] and tenant_key
local version, union = nil, nil
if tenant_record or owner == '__system__' then
  version, union = watch_write(watch, thresholds, tenant_record, subscription_id, '')
end
if tenant_record then version = nil end
local reply = {'deleted', version or '', version and union or ''}
local events = events_new(event_log, outbox, owner, day, now, context)
event_append(events, 'webhook.deleted', nil, {'data.subscription_id', subscription_id, 'data.previous_status',
  stored[2] or '', 'data.changed_fields', '', 'correlation_id', 'webhook_delete:' .. subscription_id})
events_point(events)
local audit = {unpack(ARGV, 8)}
audit[#audit + 1], audit[#audit + 2] = 'metadata.url', stored[3] or ''
audit_append(now, audit)
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
