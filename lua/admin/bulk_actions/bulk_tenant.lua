#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk_rows.rs.
Changes the status of one tenant for a bulk action, as update_tenant does, and keeps the outcome. Of a close it keeps
that it has started: its outcome is known later. A row that has an outcome is left alone.

KEYS[1]  write  tenant_key       hash    tenant:<tenant>
KEYS[2]  write  event_log        stream  events:<tenant>:<day>
KEYS[3]  write  outbox           stream  outbox
KEYS[4]  write  days             zset    days
KEYS[5]  write  closing          hash    closing:<tenant>
KEYS[6]  write  closings         zset    closings
KEYS[7]  write  counts           hash    counts
KEYS[8]  write  bulk_rows        hash    bulkrow:<claim_id>
KEYS[9]  write  idempotency_due  zset    idemdue

ARGV[1]  day                   yyyymmdd
ARGV[2]  day_start_ms          int64
ARGV[3]  tenant                text
ARGV[4]  wanted                text      A status.
ARGV[5]  context               text      The request cause, lines of name and value.
ARGV[6]  correlation_id        text      Of the action.
ARGV[7]  close_correlation_id  text
ARGV[8]  request_part_ms       int64     For so long the action itself works on a close, then others may.

Replies, the first that applies:
  clock now_ms | done outcomes
Writes:
  On done: if the status changes the counts, the tenant, and the event or the intent; the intent of a close that is
  begun again; the outcome.
]]
local tenant_key, event_log, outbox, days, closing, closings, counts, bulk_rows, idempotency_due = unpack(KEYS)
local day, day_start_ms, tenant, wanted, context, correlation_id, close_correlation_id, request_part_ms = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, admin/counts, log/events, admin/tenant_flip, admin/bulk

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local known = redis.call('HGET', bulk_rows, tenant)
if known then return {'done', known} end
local refused, settings = tenant_refusal(tenant_key)
local status = settings[TENANT_STATUS]
local closes = wanted == 'CLOSED'
local begins = closes and redis.call('EXISTS', closing) == 0
-- Another process closes it: the time of the process that changed the status is not over, and nothing has failed.
local held = closes and not begins and not redis.call('HGET', closing, 'attempts')
  and now < tonumber(redis.call('ZSCORE', closings, tenant) or 0)
local outcome
if refused == 'tenant_unreadable' then
  outcome = 'failed INTERNAL_ERROR The record of the tenant cannot be read'
elseif not status then
  outcome = 'failed NOT_FOUND The tenant does not exist'
elseif status == 'CLOSED' and not closes then
  outcome = 'failed INVALID_TRANSITION The tenant is closed, and stays closed'
elseif status == wanted and not closes then
  outcome = 'skipped ALREADY_IN_TARGET_STATE'
elseif status == wanted and held then
  outcome = 'skipped CASCADE_IN_PROGRESS'
end
local changes = not outcome
local flips, set = changes and status ~= wanted, {}
local first_correlation_id, emitted
if changes then
  outcome = not closes and 'succeeded' or flips and 'closing' or 'closing_again'
  first_correlation_id, emitted = tenant_flip_fields(tenant_key, wanted, flips, now, close_correlation_id, set)
end
-- Keys that are written without a read: one of the wrong type raises here.
redis.call('ZCARD', closings)
if flips then counts_check(counts) end
redis.call('ZCARD', days)
redis.call('ZCARD', idempotency_due)
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)

-- Effects: none can fail. The guard of a closed tenant holds from the first of them on.
if flips then
  counts_move(counts, 'tenant', status, wanted)
  set[#set + 1], set[#set + 2] = 'updated_at_ms', now
end
if #set > 0 then redis.call('HSET', tenant_key, unpack(set)) end
if changes and begins then
  tenant_close_begin(closing, closings, tenant, now, {context = context, correlation_id = first_correlation_id, emitted = emitted,
    previous_status = status, parent_correlation_id = correlation_id, request_part_ms = request_part_ms})
end
if flips then
  local events = events_new(event_log, outbox, tenant, day, now, context .. '\ncorrelation_id ' .. correlation_id)
  tenant_flip_event(events, status, wanted, '')
  events_point(events)
  day_register(days, tenant_key, settings, tenant, day, now)
end
bulk_rows_keep(bulk_rows, {tenant, outcome}, idempotency_due, now)
return {'done', outcome}
