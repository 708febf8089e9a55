#!lua flags=allow-oom
--[[
bulk_tenant: changes the status of one tenant for a bulk action, as update_tenant does, and keeps what became of it. Of a
close it keeps that it goes on: what it comes to is known later.
KEYS[1] tenant     hash      KEYS[4] days      zset      KEYS[7] counts     hash
KEYS[2] event_log  stream    KEYS[5] closing   hash
KEYS[3] outbox     stream    KEYS[6] closings  zset      KEYS[8] bulk_rows  hash
ARGV[1] tenant          ARGV[4] status                 ARGV[6] correlation_id of the action
ARGV[2] day yyyymmdd    ARGV[5] context of events,     ARGV[7] correlation_id of a close
ARGV[3] day_start_ms            lines of name and      ARGV[8] request_part_ms: for so long the action itself goes on with
                                value                          a close, then others may
Reply: clock now_ms | settled outcome
Writes on settled: if the status changes the counts, the record, and the event or the intent; the intent of a close that
is taken up again; the outcome. What has an outcome is left alone.
]]
-- @include base/time, access/tenant, base/days, admin/counts, log/events, admin/tenant_flip, admin/bulk
local tenant_key, event_log, outbox, days, closing, closings, counts, rows = unpack(KEYS)
local tenant, day, day_start_ms, wanted, context, correlation_id, close_correlation_id, request_part_ms = unpack(ARGV)

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local known = redis.call('HGET', rows, tenant)
if known then return {'settled', known} end
local refused, settings = tenant_refusal(tenant_key)
local status = settings[TENANT_STATUS]
local closes = wanted == 'CLOSED'
local begins = closes and redis.call('EXISTS', closing) == 0
-- Somebody is at it: the time of whoever flipped it is not over, and nothing has failed.
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
local first_correlation_id, told
if changes then
  outcome = not closes and 'succeeded' or flips and 'closing' or 'closing_again'
  first_correlation_id, told = tenant_flip_fields(tenant_key, wanted, flips, now, close_correlation_id, set)
end
-- What is written without having been read: one of another type raises here.
redis.call('ZCARD', closings)
if flips then counts_check(counts) end
redis.call('ZCARD', days)
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)

-- Effects: none can fail. The guard of a closed tenant stands from the first of them on.
if flips then
  counts_move(counts, 'tenant', status, wanted)
  set[#set + 1], set[#set + 2] = 'updated_at_ms', now
end
if #set > 0 then redis.call('HSET', tenant_key, unpack(set)) end
if changes and begins then
  tenant_close_begin(closing, closings, tenant, now, {context = context, correlation_id = first_correlation_id, told = told,
    previous_status = status, parent_correlation_id = correlation_id, request_part_ms = request_part_ms})
end
if flips then
  local events = events_new(event_log, outbox, tenant, day, now, context .. '\ncorrelation_id ' .. correlation_id)
  tenant_flip_event(events, status, wanted, '')
  events_point(events)
  day_register(days, tenant_key, settings, tenant, day, now)
end
bulk_rows_keep(rows, {tenant, outcome})
return {'settled', outcome}
