#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/tenants.rs.
Changes a tenant's settings or its status. To close it is to flip its status, from which moment on nothing that it owns
can be changed; what ends all that follows the intent that is stored in the same step.

closing: the status is or was CLOSED, and steps may be due.

KEYS[1]   write  tenant_key   hash    tenant:<tenant>
KEYS[2]   write  closing      hash    closing:<tenant>
KEYS[3]   write  closings     zset    closings
KEYS[4]   write  counts       hash    counts
KEYS[5]   write  event_log    stream  events:<tenant>:<day>
KEYS[6]   write  outbox       stream  outbox
KEYS[7]   write  days         zset    days
KEYS[8]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[9]   write  chain        hash    chain:<tenant>
KEYS[10]  write  unsealed     set     unsealed
KEYS[11]  write  short_lived  hash    short_lived:<tenant>
KEYS[12]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                 day                    yyyymmdd
ARGV[2]                 day_start_ms           int64
ARGV[3]                 payload_hash           text
ARGV[4]                 context                text            The request cause, lines of name and value.
ARGV[5]                 tenant                 text
ARGV[6]                 wanted                 text or ''      A status.
ARGV[7]                 correlation_id         text            Of a close.
ARGV[8]                 parent_correlation_id  text or ''      Of tenant.closed, where it differs.
ARGV[9]                 request_part_ms        int64
    For so long the request itself works on a close, then others may.
ARGV[10]                changes                n, then n more
    A member of the request, the field of the record, then = and the value, or '' to remove the field.
ARGV[changes_to + 1..]  audit                  to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | tenant_not_found | tenant_unreadable | leaving_closed |
  closing record | updated record
Writes:
  On closing and updated: the counts, the tenant, the event, the audit entry. On closing the intent instead of the last
  two, unless there is one: then the audit entry.
]]
local tenant_key, closing, closings, counts, event_log, outbox, days, audit_log, chain, unsealed, short_lived,
  idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, wanted, correlation_id, parent_correlation_id, request_part_ms
  = unpack(ARGV, 1, 9)
local changes_from = 11
local changes_to = 10 + ARGV[10]
local audit_from = changes_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, admin/counts, log/events, admin/tenant_flip, log/audit
-- @include admin/closing_request, admin/record_changes, access/idempotency
local SETTINGS = {default_commit_overage_policy = true, default_reservation_ttl_ms = true,
  max_reservation_ttl_ms = true, max_reservation_extensions = true}

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
if redis.call('EXISTS', tenant_key) == 0 then return {'tenant_not_found'} end
local refused, settings = tenant_refusal(tenant_key)
if refused == 'tenant_unreadable' then return {refused} end
local status = settings[TENANT_STATUS]
if status == 'CLOSED' and wanted ~= '' and wanted ~= 'CLOSED' then return {'leaving_closed'} end
local set, removed, changed = record_changes(tenant_key, ARGV, changes_from, changes_to)
set[#set + 1], set[#set + 2] = 'updated_at_ms', now
local of_settings = true
for _, member in ipairs(changed) do of_settings = of_settings and SETTINGS[member] end
local flips = wanted ~= '' and wanted ~= status
local first_correlation_id, emitted = tenant_flip_fields(tenant_key, wanted, flips, now, correlation_id, set)
local begins = wanted == 'CLOSED' and redis.call('HLEN', closing) == 0
-- Keys that are written without a read: one of the wrong type raises here.
redis.call('ZCARD', closings)
if flips then counts_check(counts) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail. The guard holds from the first of them on.
if flips then counts_move(counts, 'tenant', status, wanted) end
redis.call('HSET', tenant_key, unpack(set))
if #removed > 0 then redis.call('HDEL', tenant_key, unpack(removed)) end
local audit = {unpack(ARGV, audit_from)}
if begins then
  tenant_close_begin(closing, closings, tenant, now, {context = context, correlation_id = first_correlation_id, emitted = emitted,
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
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
