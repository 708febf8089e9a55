#!lua
--[[
update_webhook: writes what was computed from a subscription as it was read; nothing if it is another by now.
KEYS[1] api_key  hash    KEYS[5] thresholds  hash      KEYS[9]  audit_log  stream  of the day
KEYS[2] tenant   hash    KEYS[6] event_log   stream    KEYS[10] chain      hash
KEYS[3] webhook  hash    KEYS[7] outbox      stream    KEYS[11] unsealed   set
KEYS[4] watch    hash    KEYS[8] days        zset      KEYS[12] counts     hash
KEYS[13] failing zset    KEYS[14] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[6] version as read         ARGV[11] event_type, '' for no event
ARGV[2] owner                             ARGV[7] status as read          ARGV[12] changed_fields, blanks between
ARGV[3] day yyyymmdd                      ARGV[8] millionths watched, ''  ARGV[13] fields to drop, blanks between
ARGV[4] day_start_ms                      ARGV[9] payload_hash            ARGV[14] n, then n names and values to write,
ARGV[5] subscription_id                   ARGV[10] context of events               then those of the audit entry
Reply, first that holds: unauthorized why | forbidden permission | clock now_ms | idempotency_mismatch
  | replayed outcome… | not_found | tenant_unreadable | tenant_closed | tenant_suspended | stale
  | updated version union record…; version and union are empty unless every partition must learn of them
Writes on updated: the counts, the record, its place among the failing, what it watches, the event if it has one, the
audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days
-- @include ledger/thresholds, admin/watch, admin/webhook, admin/counts, admin/failing, log/events
-- @include log/audit, access/idempotency
local api_key, tenant_key, webhook, watch, thresholds, event_log, outbox, days, audit_log, chain, unsealed, counts,
  failing, idempotency = unpack(KEYS)
local key_hash, owner, day, day_start_ms, subscription_id, version, status, millionths, payload_hash, context, event_type,
  changed_fields, dropped = unpack(ARGV, 1, 13)
local fields_end = 14 + ARGV[14]

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, owner, 'webhooks:write', '', now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local stored = redis.call('HMGET', webhook, 'tenant', 'version', 'status')
if stored[1] ~= owner then return {'not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if stored[2] ~= version or stored[3] ~= status then return {'stale'} end
local becomes, failures = status, nil
for i = 15, fields_end, 2 do
  if ARGV[i] == 'status' then becomes = ARGV[i + 1] end
  if ARGV[i] == 'consecutive_failures' then failures = ARGV[i + 1] end
end
watch_check(watch, thresholds)
if becomes ~= status then counts_check(counts) end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', failing)

-- Effects: none can fail.
counts_move(counts, 'webhook', status, becomes)
if failures then failing_write(failing, subscription_id, failures) end
if dropped ~= '' then
  for field in dropped:gmatch('%S+') do redis.call('HDEL', webhook, field) end
end
redis.call('HSET', webhook, 'updated_at_ms', now, 'version', version + 1, unpack(ARGV, 15, fields_end))
local tenant_record = settings[TENANT_STATUS] and tenant_key
local source_version, union = nil, nil
if tenant_record or owner == '__system__' then
  source_version, union = watch_write(watch, thresholds, tenant_record, subscription_id, millionths)
end
if tenant_record then source_version = nil end
local reply = {'updated', source_version or '', source_version and union or '', unpack(webhook_shown(webhook))}
if event_type ~= '' then
  local request_id = context:match('\nrequest_id ([^\n]*)') or ''
  local events = events_new(event_log, outbox, owner, day, now, context)
  event_append(events, event_type, nil, {'data.subscription_id', subscription_id, 'data.previous_status', status,
    'data.new_status', redis.call('HGET', webhook, 'status'), 'data.changed_fields', changed_fields,
    'correlation_id', 'webhook_update:' .. subscription_id .. ':' .. request_id})
  events_point(events)
end
audit_append(now, {unpack(ARGV, fields_end + 1)})
day_register(days, tenant_key, settings, owner, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
