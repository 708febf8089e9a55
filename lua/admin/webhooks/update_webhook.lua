#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Writes what was computed from a subscription as it was read; nothing if it is another by now.

watched: a version and a union of thresholds, empty unless every partition must copy them.

KEYS[1]   read   api_key        hash    apikey:<key_id>
KEYS[2]   write  tenant_key     hash    tenant:<owner>
KEYS[3]   write  webhook        hash    webhook:<subscription_id>
KEYS[4]   write  webhooks       zset    webhooks:<owner>
KEYS[5]   write  webhooks_mark  string  webhooksmark:<owner>
KEYS[6]   write  watch          hash    watch:<owner>
KEYS[7]   write  thresholds     hash    thresholds
KEYS[8]   write  event_log      stream  events:<owner>:<day>
KEYS[9]   write  outbox         stream  outbox
KEYS[10]  write  days           zset    days
KEYS[11]  write  audit_log      stream  audit:<owner>:<day>
KEYS[12]  write  chain          hash    chain:<owner>
KEYS[13]  write  unsealed       set     unsealed
KEYS[14]  write  counts         hash    counts
KEYS[15]  write  failing        zset    failing
KEYS[16]  write  lanes          zset    lanes
KEYS[17]  write  short_lived    hash    short_lived:<owner>
KEYS[18]  write  idempotency    hash    idem:<idempotency_scope>:<digest>  (if digest)

ARGV[1]                day              yyyymmdd
ARGV[2]                day_start_ms     int64
ARGV[3]                key_hash         text            Of the API key; empty for the admin key.
ARGV[4]                owner            text
ARGV[5]                subscription_id  text
ARGV[6]                version          int64           The value that was read before.
ARGV[7]                status           text            The value that was read before.
ARGV[8]                scope_filter     text or ''      That it is to have.
ARGV[9]                watched          text            The thresholds and limits that it watches, blanks between.
ARGV[10]               thresholds_max   int64           Different thresholds that the owner's subscriptions may watch.
ARGV[11]               payload_hash     text
ARGV[12]               context          text            The request cause, lines of name and value.
ARGV[13]               event_type       text or ''      '' for no event.
ARGV[14]               changed_fields   text            Blanks between.
ARGV[15]               dropped          text            Fields to be removed, blanks between.
ARGV[16]               fields           n, then n more  Names and values to be written.
ARGV[fields_to + 1..]  audit            to the end      Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | webhook_not_found | tenant_unreadable | tenant_closed | tenant_suspended |
  too_many count limit present | stale | updated watched record
Writes:
  On updated: the counts, the subscription, its place among the failing, what it watches, the event if it has one, the
  audit entry. Otherwise nothing.
]]
local api_key, tenant_key, webhook, webhooks, webhooks_mark, watch, thresholds, event_log, outbox, days, audit_log,
  chain, unsealed, counts, failing, lanes, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, key_hash, owner, subscription_id, version, status, scope_filter, watched, thresholds_max,
  payload_hash, context, event_type, changed_fields, dropped = unpack(ARGV, 1, 15)
local fields_from = 17
local fields_to = 16 + ARGV[16]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days
-- @include access/subscription_fence
-- @include ledger/thresholds, admin/watch, admin/webhook, admin/webhook_status, admin/counts, admin/failing, log/events
-- @include log/audit, access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
local stored = redis.call('HMGET', webhook, 'tenant', 'version', 'status', 'scope_filter', 'epoch')
if stored[1] == owner and not (subscription_fence_allows(filter, stored[4])
    and subscription_fence_allows(filter, scope_filter)) then
  return {'scope_forbidden', filter}
end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
if stored[1] ~= owner then return {'webhook_not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if stored[2] ~= version or stored[3] ~= status then return {'stale'} end
local excess, limit, would_be = watch_excess(watch, subscription_id, watched, thresholds_max)
if excess then return {'too_many', excess, limit, would_be} end
local becomes, failures = status, nil
for i = fields_from, fields_to, 2 do
  if ARGV[i] == 'status' then becomes = ARGV[i + 1] end
  if ARGV[i] == 'consecutive_failures' then failures = ARGV[i + 1] end
end
local mark = webhooks_mark_read(webhooks_mark)
redis.call('ZCARD', webhooks)
watch_check(watch, thresholds)
if becomes ~= status then counts_check(counts) end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', failing)
redis.call('ZCARD', lanes)

-- Effects: none can fail.
counts_move(counts, 'webhook', status, becomes)
if failures then failing_write(failing, subscription_id, failures) end
if dropped ~= '' then
  for field in dropped:gmatch('%S+') do redis.call('HDEL', webhook, field) end
end
redis.call('HSET', webhook, 'updated_at_ms', now, 'version', version + 1, unpack(ARGV, fields_from, fields_to))
if status == 'ACTIVE' and becomes ~= status then webhook_deactivated(webhook, stored[5], lanes, subscription_id) end
webhooks_mark_renew(webhooks_mark, webhooks, mark, subscription_id)
local tenant_record = settings[TENANT_STATUS] and tenant_key
local source_version, union = nil, nil
if tenant_record or owner == '__system__' then
  source_version, union = watch_write(watch, thresholds, tenant_record, subscription_id, watched)
end
if tenant_record then source_version = nil end
local reply = {'updated', source_version or '', source_version and union or '', unpack(webhook_without_secrets(webhook))}
if event_type ~= '' then
  local request_id = context:match('\nrequest_id ([^\n]*)') or ''
  local events = events_new(event_log, outbox, owner, day, now, context)
  event_append(events, event_type, nil, {'data.subscription_id', subscription_id, 'data.previous_status', status,
    'data.new_status', redis.call('HGET', webhook, 'status'), 'data.changed_fields', changed_fields,
    'correlation_id', 'webhook_update:' .. subscription_id .. ':' .. request_id})
  local place = events_point(events)
  if becomes == 'ACTIVE' and becomes ~= status then webhook_activated(webhook, place, now) end
end
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
