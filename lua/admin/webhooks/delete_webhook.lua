#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Removes a subscription with its secrets. Its queued deliveries fail when they are picked up.

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

ARGV[1]    day              yyyymmdd
ARGV[2]    day_start_ms     int64
ARGV[3]    key_hash         text        Of the API key; empty for the admin key.
ARGV[4]    owner            text
ARGV[5]    subscription_id  text
ARGV[6]    payload_hash     text
ARGV[7]    context          text        The request cause, lines of name and value.
ARGV[8..]  audit            to the end  Names and values of the audit entry, except the address.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | webhook_not_found | tenant_unreadable | tenant_closed | tenant_suspended | deleted watched
Writes:
  On deleted: the counts; the subscription and its entries go; the event, the audit entry. Otherwise nothing.
]]
local api_key, tenant_key, webhook, webhooks, webhooks_mark, watch, thresholds, event_log, outbox, days, audit_log,
  chain, unsealed, counts, failing, lanes, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, key_hash, owner, subscription_id, payload_hash, context = unpack(ARGV, 1, 7)
local audit_from = 8
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days
-- @include access/subscription_fence
-- @include ledger/thresholds, admin/watch, admin/webhook_status, admin/counts, log/events, log/audit
-- @include access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
local stored = redis.call('HMGET', webhook, 'tenant', 'status', 'url', 'scope_filter')
if stored[1] == owner and not subscription_fence_allows(filter, stored[4]) then
  return {'scope_forbidden', filter}
end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
if stored[1] ~= owner then return {'webhook_not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
watch_check(watch, thresholds)
if stored[2] then counts_check(counts) end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', webhooks)
redis.call('ZCARD', failing)
redis.call('ZCARD', lanes)
local mark = webhooks_mark_read(webhooks_mark)

-- Effects: none can fail.
if stored[2] then counts_move(counts, 'webhook', stored[2], nil) end
redis.call('ZREM', failing, subscription_id)
redis.call('ZREM', webhooks, subscription_id)
redis.call('DEL', webhook)
webhook_deliveries_end(lanes, subscription_id)
webhooks_mark_renew(webhooks_mark, webhooks, mark, subscription_id)
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
local audit = {unpack(ARGV, audit_from)}
audit[#audit + 1], audit[#audit + 2] = 'metadata.url', stored[3] or ''
audit_append(now, audit)
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
