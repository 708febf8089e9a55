#!lua flags=allow-oom
--[[
update_tenant: changes a tenant's settings or its status. To close it is to flip its status, from which moment on nothing
that it owns can be changed; what ends all that follows the intent that is stored in the same step.
KEYS[1] tenant     hash      KEYS[4] days       zset               KEYS[7] unsealed     set
KEYS[2] event_log  stream    KEYS[5] audit_log  stream  of the day KEYS[8] closing      hash
KEYS[3] outbox     stream    KEYS[6] chain      hash               KEYS[9] closings     zset
KEYS[10] counts    hash      KEYS[11] idempotency  hash  where there is a key
ARGV[1] tenant               ARGV[5] payload_hash                  ARGV[8] of tenant.closed, where it differs, or ''
ARGV[2] day yyyymmdd         ARGV[6] context of events, lines of   ARGV[9] request_part_ms: for so long the request itself
ARGV[3] day_start_ms                 name and value                        goes on with a close, then others may
ARGV[4] status or ''         ARGV[7] correlation_id of a close     ARGV[10] n, then n names and values to be set ('' takes
                                                                            one out), then those of the audit entry
Reply, first that holds: clock now_ms | idempotency_mismatch | replayed outcome… | not_found | tenant_unreadable
  | leaving_closed | closing record… | updated record…
closing: the status is or was CLOSED, and steps may be due.
Writes on closing, updated: the counts, the record, the event, the audit entry. On closing the intent instead of the last two, save
where there is one already: then the audit entry.
]]
-- @include base/time, access/tenant, base/days, admin/counts, log/events, admin/tenant_flip, log/audit
-- @include admin/closing_request, access/idempotency
local tenant_key, event_log, outbox, days, audit_log, chain, unsealed, closing, closings, counts, idempotency = unpack(KEYS)
local tenant, day, day_start_ms, wanted, payload_hash, context, correlation_id, parent_correlation_id, request_part_ms =
  unpack(ARGV, 1, 9)
local fields_end = 10 + ARGV[10]
local SETTINGS = {default_commit_overage_policy = true, default_reservation_ttl_ms = true,
  max_reservation_ttl_ms = true, max_reservation_extensions = true}

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
if redis.call('EXISTS', tenant_key) == 0 then return {'not_found'} end
local refused, settings = tenant_refusal(tenant_key)
if refused == 'tenant_unreadable' then return {refused} end
local status = settings[TENANT_STATUS]
if status == 'CLOSED' and wanted ~= '' and wanted ~= 'CLOSED' then return {'leaving_closed'} end
local set, removed, changed, of_settings = {'updated_at_ms', now}, {}, {}, true
for i = 11, fields_end, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  if (redis.call('HGET', tenant_key, name) or '') ~= value then
    changed[#changed + 1], of_settings = name, of_settings and SETTINGS[name]
    if value == '' then removed[#removed + 1] = name else set[#set + 1], set[#set + 2] = name, value end
  end
end
local flips = wanted ~= '' and wanted ~= status
local first_correlation_id, told = tenant_flip_fields(tenant_key, wanted, flips, now, correlation_id, set)
local begins = wanted == 'CLOSED' and redis.call('EXISTS', closing) == 0
-- What is written without having been read: one of another type raises here.
redis.call('ZCARD', closings)
if flips then counts_check(counts) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail. The guard stands from the first of them on.
if flips then counts_move(counts, 'tenant', status, wanted) end
redis.call('HSET', tenant_key, unpack(set))
if #removed > 0 then redis.call('HDEL', tenant_key, unpack(removed)) end
local audit = {unpack(ARGV, fields_end + 1)}
if begins then
  tenant_close_begin(closing, closings, tenant, now, {context = context, correlation_id = first_correlation_id, told = told,
    previous_status = status, parent_correlation_id = parent_correlation_id, request_part_ms = request_part_ms})
  closing_request_keep(closing, audit)
else
  if wanted == 'CLOSED' then
    local summary = closing_summary(closing, true)
    for i = 1, #summary, 2 do
      audit[#audit + 1], audit[#audit + 2] = 'metadata.cascade.' .. summary[i], summary[i + 1]
    end
  end
  audit[#audit + 1], audit[#audit + 2] = 'status', 200
  audit_append(now, audit)
end
local events = events_new(event_log, outbox, tenant, day, now, context)
local changed_fields = table.concat(changed, ' ')
if flips then
  tenant_flip_event(events, status, wanted, changed_fields)
elseif #changed > 0 then
  event_append(events, of_settings and 'tenant.settings_changed' or 'tenant.updated', nil,
    {'data.changed_fields', changed_fields})
end
events_point(events)
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {wanted == 'CLOSED' and 'closing' or 'updated', unpack(redis.call('HGETALL', tenant_key))}
idempotency_keep(idempotency, payload_hash, reply)
return reply
