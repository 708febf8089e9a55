#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Records a subscription of a tenant or of the operator.

mode: tenant, system, or check, which decides everything that could refuse it, for a request that is refused otherwise.
watched: a version and a union of thresholds, empty unless every partition must copy them.

KEYS[1]   read   api_key        hash    apikey:<key_id>
KEYS[2]   write  tenant_key     hash    tenant:<owner>
KEYS[3]   write  webhook        hash    webhook:<subscription_id>
KEYS[4]   write  webhooks       zset    webhooks:<owner>
KEYS[5]   write  webhooks_mark  string  webhooksmark:<owner>
KEYS[6]   write  watch          hash    watch:<owner>
KEYS[7]   write  thresholds     hash    thresholds
KEYS[8]   write  counts         hash    counts
KEYS[9]   write  event_log      stream  events:<owner>:<day>
KEYS[10]  write  outbox         stream  outbox
KEYS[11]  write  days           zset    days
KEYS[12]  write  audit_log      stream  audit:<owner>:<day>
KEYS[13]  write  chain          hash    chain:<owner>
KEYS[14]  write  unsealed       set     unsealed
KEYS[15]  write  short_lived    hash    short_lived:<owner>
KEYS[16]  write  idempotency    hash    idem:<owner>:<digest>  (if digest)

ARGV[1]                day              yyyymmdd
ARGV[2]                day_start_ms     int64
ARGV[3]                payload_hash     text
ARGV[4]                context          text            The request cause, lines of name and value.
ARGV[5]                key_hash         text            Of the API key; empty for the admin key.
ARGV[6]                owner            text
ARGV[7]                subscription_id  text
ARGV[8]                mode             text
ARGV[9]                scope_filter     text or ''
ARGV[10]               watched          text            The thresholds and limits that it watches, blanks between.
ARGV[11]               webhooks_max     int64           Subscriptions that the owner may have.
ARGV[12]               thresholds_max   int64           Different thresholds that they may watch.
ARGV[13]               fields           n, then n more  Names and values of the record.
ARGV[fields_to + 1..]  audit            to the end      Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | tenant_not_found |
  too_many count limit present | taken | checked | created watched record
Writes:
  On created: the counts, the subscription, the owner's list, what it watches, the event, the audit entry. Otherwise
  nothing.
]]
local api_key, tenant_key, webhook, webhooks, webhooks_mark, watch, thresholds, counts, event_log, outbox, days,
  audit_log, chain, unsealed, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, owner, subscription_id, mode, scope_filter, watched,
  webhooks_max, thresholds_max = unpack(ARGV, 1, 12)
local fields_from = 14
local fields_to = 13 + ARGV[13]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days
-- @include access/subscription_fence
-- @include ledger/thresholds, admin/watch, admin/webhook_status, admin/counts, log/events, log/audit, access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
if not subscription_fence_allows(filter, scope_filter) then return {'scope_forbidden', filter} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if mode == 'tenant' and not settings[TENANT_STATUS] then return {'tenant_not_found'} end
local present = redis.call('ZCARD', webhooks)
if present >= tonumber(webhooks_max) then return {'too_many', 'webhooks', webhooks_max, present + 1} end
local excess, limit, would_be = watch_excess(watch, subscription_id, watched, thresholds_max)
if excess then return {'too_many', excess, limit, would_be} end
if redis.call('EXISTS', webhook) == 1 then return {'taken'} end
if mode == 'check' then return {'checked'} end
local mark = webhooks_mark_read(webhooks_mark)
watch_check(watch, thresholds)
counts_check(counts)
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
counts_move(counts, 'webhook', nil, 'ACTIVE')
redis.call('ZADD', webhooks, 0, subscription_id)
redis.call('HSET', webhook, 'subscription_id', subscription_id, 'tenant', owner, 'status', 'ACTIVE',
  'consecutive_failures', 0, 'created_at_ms', now, 'version', 1, unpack(ARGV, fields_from, fields_to))
local version, union = watch_write(watch, thresholds, mode == 'tenant' and tenant_key, subscription_id, watched)
if mode == 'tenant' then version = nil end
webhooks_mark_renew(webhooks_mark, webhooks, mark, subscription_id)
local reply = {'created', version or '', version and union or '', unpack(redis.call('HGETALL', webhook))}
local events = events_new(event_log, outbox, owner, day, now, context)
event_append(events, 'webhook.created', nil, {'data.subscription_id', subscription_id, 'data.new_status', 'ACTIVE',
  'data.changed_fields', '', 'correlation_id', 'webhook_create:' .. subscription_id})
webhook_activated(webhook, events_point(events), now)
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
