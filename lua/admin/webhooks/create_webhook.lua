#!lua
--[[
create_webhook: records a subscription of a tenant or of the operator.
KEYS[1] api_key   hash    KEYS[5] watch       hash      KEYS[9]  days       zset
KEYS[2] tenant    hash    KEYS[6] thresholds  hash      KEYS[10] audit_log  stream  of the day
KEYS[3] webhook   hash    KEYS[7] event_log   stream    KEYS[11] chain      hash
KEYS[4] webhooks  zset    KEYS[8] outbox      stream    KEYS[12] unsealed   set
KEYS[13] counts   hash    KEYS[14] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[5] subscription_id    ARGV[8] payload_hash
ARGV[2] owner                             ARGV[6] mode               ARGV[9] context of events, lines of name and value
ARGV[3] day yyyymmdd                      ARGV[7] millionths         ARGV[10] n, then n names and values of the record,
ARGV[4] day_start_ms                              watched, or ''              then those of the audit entry
mode: tenant | system; check: all that could refuse it besides, for a request that is refused otherwise.
Reply, first that holds: unauthorized why | forbidden permission | clock now_ms | idempotency_mismatch
  | replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | tenant_not_found | taken | checked
  | created version union record…; version and union are empty unless every partition must learn of them
Writes on created: the counts, the record, the owner's list, what it watches, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days
-- @include ledger/thresholds, admin/watch, admin/counts, log/events, log/audit, access/idempotency
local api_key, tenant_key, webhook, webhooks, watch, thresholds, event_log, outbox, days, audit_log, chain, unsealed,
  counts, idempotency = unpack(KEYS)
local key_hash, owner, day, day_start_ms, subscription_id, mode, millionths, payload_hash, context = unpack(ARGV, 1, 9)
local fields_end = 10 + ARGV[10]

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if mode == 'tenant' and not settings[TENANT_STATUS] then return {'tenant_not_found'} end
if redis.call('EXISTS', webhook) == 1 then return {'taken'} end
if mode == 'check' then return {'checked'} end
watch_check(watch, thresholds)
counts_check(counts)
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', webhooks)

-- Effects: none can fail.
counts_move(counts, 'webhook', nil, 'ACTIVE')
redis.call('ZADD', webhooks, 0, subscription_id)
redis.call('HSET', webhook, 'subscription_id', subscription_id, 'tenant', owner, 'status', 'ACTIVE',
  'consecutive_failures', 0, 'created_at_ms', now, 'version', 1, unpack(ARGV, 11, fields_end))
local version, union = watch_write(watch, thresholds, mode == 'tenant' and tenant_key, subscription_id, millionths)
if mode == 'tenant' then version = nil end
local reply = {'created', version or '', version and union or '', unpack(redis.call('HGETALL', webhook))}
local events = events_new(event_log, outbox, owner, day, now, context)
event_append(events, 'webhook.created', nil, {'data.subscription_id', subscription_id, 'data.new_status', 'ACTIVE',
  'data.changed_fields', '', 'correlation_id', 'webhook_create:' .. subscription_id})
events_point(events)
audit_append(now, {unpack(ARGV, fields_end + 1)})
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
