#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/expire.rs.
Ends up to a number of a tenant's reservations whose grace period is over; their holds return to the ledgers. However
often it is called, each reservation expires once, because its status and its due time are read here.

A record that is corrupt, or whose ledger is, leaves the index for the quarantine; its ledgers are not touched.

KEYS[1]   read   lease         hash    lease
KEYS[2]   write  tenant_key    hash    tenant:<tenant>
KEYS[3]   write  due           zset    due:<tenant>
KEYS[4]   write  other_graces  zset    due:<tenant>:other_graces
KEYS[5]   write  due_tenants   zset    due
KEYS[6]   write  event_log     stream  events:<tenant>:<day>
KEYS[7]   write  outbox        stream  outbox
KEYS[8]   write  days          zset    days
KEYS[9]   write  quarantine    zset    quarantine
KEYS[10]  write  traffic       hash    traffic:<tenant>
KEYS[11]  write  traffic_due   zset    traffic
built     write                hash    rsv:<reservation_id>
built     write                hash    budget:<tenant>:<unit>:<scope>

ARGV[1]  reservation_prefix  prefix rsv:
ARGV[2]  budget_prefix       prefix budget:<tenant>:
ARGV[3]  day                 yyyymmdd
ARGV[4]  day_start_ms        int64
ARGV[5]  tenant              text
ARGV[6]  rows                int64                    Reservations at most.
ARGV[7]  context             text                     The request cause, lines of name and value.
ARGV[8]  before_ms           int64 or ''              Only what was due by then; '' for now.
ARGV[9]  fencing_token       int64 or ''              Of the caller's lease, if it has one.

Replies, the first that applies:
  clock now_ms | fenced | expired now_ms count more next_due_ms quarantined
Writes:
  On expired: the reservations, their due times and expiries, the ledgers, events, the quarantine,
        the counts of
  what ended.
]]
local lease, tenant_key, due, other_graces, due_tenants, event_log, outbox, days, quarantine, traffic, traffic_due
  = unpack(KEYS)
local reservation_prefix, budget_prefix, day, day_start_ms, tenant, rows, context, before_ms, fencing_token
  = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, base/int64, ledger/thresholds, ledger/budgets, log/events
-- @include base/hash_fields, base/slot, ledger/ledger_hold, ledger/usual_grace
-- @include detect/traffic, ledger/no_threshold_crossed, ledger/holds, ledger/thresholds_crossed, ledger/ledger_events
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local bound = before_ms ~= '' and math.min(now, tonumber(before_ms)) or now

-- Reads: every record and every ledger, and the total that returns to each ledger.
local ids = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. bound, 'LIMIT', 0, rows)
local expired, later, corrupt, holds = {}, {}, {}, holds_new(budget_prefix)

for _, id in ipairs(ids) do
  local record = hash_fields(reservation_prefix .. id, 'status', 'tenant', 'unit', 'estimate', 'scope_path',
    'budgeted', 'created_at_ms', 'expires_at_ms', 'extensions', 'action_kind', 'grace_ms')
  local status, estimate = record[1], int64(record[4])
  local ended = not record.err and (not status or status == 'COMMITTED' or status == 'RELEASED' or status == 'EXPIRED')
  if not ended then
    local expires_at_ms, grace_ms = holds_time(record[8]), holds_time(record[11])
    local due_ms = expires_at_ms and grace_ms and expires_at_ms + grace_ms
    local sound = not record.err and status == 'ACTIVE' and record[2] == tenant and estimate and not int64_lt(estimate, 0)
      and record[3] and record[5] and record[6] and holds_time(record[7]) and due_ms
    if sound and bound <= due_ms then
      later[#later + 1] = {due_ms, id, record[11] ~= USUAL_GRACE_MS and expires_at_ms}
    elseif sound and holds_return(holds, record[3], record[5], record[6], estimate) then
      expired[#expired + 1] = {id, record}
    else
      corrupt[#corrupt + 1] = id
    end
  end
end
local _, settings = tenant_refusal(tenant_key, 'watched_rates')
local counts = #expired > 0 and traffic_read(traffic, now, not settings.err and settings[4])
local thresholds = thresholds_parse(not settings.err and settings[TENANT_THRESHOLDS])
local moved = holds_moved(holds)
-- Keys that are written without a read: one of the wrong type raises here, before any hold returns.
for _, index in ipairs({other_graces, due_tenants, quarantine, days, traffic_due}) do redis.call('ZCARD', index) end
event_preconditions(moved, event_log, outbox)
slot_check(due)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, context)
for _, budget in ipairs(moved) do ledger_write_hold(budget) end
for _, row in ipairs(expired) do
  local id, record = row[1], row[2]
  redis.call('HSET', reservation_prefix .. id, 'status', 'EXPIRED', 'expired_at_ms', now)
  event_append(events, 'reservation.expired', record[5], {'kind', record[10] or '*', 'data.reservation_id', id,
    'data.unit', record[3], 'data.estimated_amount', record[4], 'data.created_at_ms', record[7],
    'data.expires_at_ms', record[8], 'data.extensions_used', record[9] or '0'})
end
for _, budget in ipairs(moved) do
  if not no_threshold_crossed(budget, thresholds, now) then
    ledger_events(events, budget, budget.unit, budget.scope, thresholds)
  end
end
if #ids > 0 then
  redis.call('ZREM', other_graces, unpack(ids))
  redis.call('ZREM', due, unpack(ids))
end
for _, row in ipairs(later) do
  if row[3] then redis.call('ZADD', other_graces, row[3], row[2]) end
  redis.call('ZADD', due, row[1], row[2])
end
for _, id in ipairs(corrupt) do redis.call('ZADD', quarantine, now, id) end
events_point(events)
if counts then
  traffic_add(counts, traffic_due, tenant, now, {[TRAFFIC_ENDED] = #expired, [TRAFFIC_EXPIRED] = #expired})
end
if events.count > 0 and not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
local next_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due then redis.call('ZADD', due_tenants, next_due, tenant) else redis.call('ZREM', due_tenants, tenant) end
local more = next_due and tonumber(next_due) < bound and 1 or 0
return {'expired', now, #expired, more, next_due or '', unpack(corrupt)}
