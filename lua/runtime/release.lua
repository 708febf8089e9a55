#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/release.rs.
Ends an active reservation without a charge; its hold returns to the ledgers.

KEYS[1]   read   api_key      hash    apikey:<key_id>
KEYS[2]   write  tenant_key   hash    tenant:<owner>
KEYS[3]   write  reservation  hash    rsv:<reservation_id>
KEYS[4]   write  due          zset    due:<owner>
KEYS[5]   write  event_log    stream  events:<owner>:<day>
KEYS[6]   write  outbox       stream  outbox
KEYS[7]   write  unsigned     stream  unsigned
KEYS[8]   write  days         zset    days
KEYS[9]   write  audit_log    stream  audit:<owner>:<day>  (if audited)
KEYS[10]  write  chain        hash    chain:<owner>  (if audited)
KEYS[11]  write  unsealed     set     unsealed  (if audited)
built     write               hash    budget:<tenant>:<unit>:<scope>
built     write               zset    due:<tenant>:other_graces
built     write               string  unsigned:<tenant>

ARGV[1]              budget_prefix   prefix budget:<owner>:
ARGV[2]              day             yyyymmdd
ARGV[3]              day_start_ms    int64
ARGV[4]              key_hash        text                    Of the API key; empty for the admin key.
ARGV[5]              tenant          text                    Of the API key; empty for the admin key.
ARGV[6]              payload_hash    text
ARGV[7]              key_digest      text                    Of the idempotency key.
ARGV[8]              context         text                    The request cause, lines of name and value.
ARGV[9]              owner           text
ARGV[10]             reservation_id  text
ARGV[11]             until_ms        int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[12]             evidence        text or ''
    What evidence attests of the request, in lines; see `evidence/queue`.
ARGV[13]             kept            n, then n more          Names and values that the record keeps.
ARGV[kept_to + 1..]  audit           to the end              Names and values of the audit entry, for the admin key.

Replies, the first that applies:
  unauthorized why | forbidden permission | clock now_ms | not_found | foreign | scope_forbidden filter |
  idempotency_mismatch | replayed now_ms record | tenant_unreadable | tenant_closed | expired | finalized status |
  corrupt key | turn_first now_ms ledgers | attested now_ms refused |
  released now_ms unit estimate depths scope_path snapshots
Writes:
  On released: the reservation, its due time and expiry, the ledgers, events, the audit entry, the entry of evidence. On
  attested: the entry and its count. Otherwise nothing.
]]
local api_key, tenant_key, reservation, due, event_log, outbox, unsigned, days, audit_log, chain, unsealed
  = unpack(KEYS)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, key_digest, context, owner, reservation_id,
  until_ms, evidence = unpack(ARGV, 1, 12)
local kept_from = 14
local kept_to = 13 + ARGV[13]
local audit_from = kept_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, log/days, base/int64, ledger/thresholds
-- @include ledger/budgets, ledger/budgets_of_record
-- @include ledger/ledger_hold, ledger/no_threshold_crossed, ledger/reservation, ledger/usual_grace

-- A refusal after evaluation.
local function evaluated(now, ...)
  if evidence == '' then return {...} end
  -- @cold evidence/refusals
  return evidence_of_refusal(unsigned, evidence, now, owner, {'reservation_id', reservation_id}, {...})
end

-- Refusals: read only, except for evidence of them.
local now = now_ms()
local refusal, why
if tenant ~= '' then refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:release', now) end
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local record = reservation_read(reservation, 'unit', 'estimate', 'budgeted', 'expires_at_ms', 'grace_ms',
  'action_kind')
local refused, filter = reservation_refusal(record, tenant, why)
if refused then return {refused, filter} end
local status, _, scope_path, unit, estimate_text, depths, expires_at_ms, grace_ms, action_kind = unpack(record)
if status == 'RELEASED' then
  -- @cold ledger/reservation_replay
  local replay = reservation_replay(reservation, key_digest, payload_hash, now)
  if replay then return replay end
end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_closed' then return evaluated(now, tenant_refused) end
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
if status == 'EXPIRED' then return evaluated(now, 'expired') end
if status ~= 'ACTIVE' then return evaluated(now, 'finalized', status) end
local estimate = int64(estimate_text)
if not (expires_at_ms and grace_ms and estimate and depths and unit) then return {'corrupt', reservation} end
-- A release that arrived in time stays in time, even if ledgers had to turn first.
local received_ms = until_ms ~= '' and math.min(now, tonumber(until_ms)) or now
if received_ms > expires_at_ms + grace_ms then return evaluated(now, 'expired') end
local budgets, corrupt = budgets_of_record(budget_prefix, unit, scope_path, depths)
if not budgets then return {'corrupt', corrupt} end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end
local thresholds, eventless, minus_estimate = thresholds_parse(settings[TENANT_THRESHOLDS]), true, int64_sub(0, estimate)
local reply, kept = {'released', now, unit, estimate_text, depths, scope_path}, {unpack(ARGV, kept_from, kept_to)}
for i = 1, #budgets do
  local budget = budgets[i]
  if not ledger_move_hold(budget, estimate, minus_estimate) then return {'corrupt', budget.key} end
  eventless = eventless and no_threshold_crossed(budget, thresholds, now)
  reply[6 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'release.' .. budget.depth, reply[6 + i]
end
if not eventless then
  -- @cold ledger/event_preconditions
  local corrupt_key = event_preconditions(budgets, event_log, outbox)
  if corrupt_key then return {'corrupt', corrupt_key} end
  day_check(days, settings, day)
end
local audit_append = nil
if tenant == '' then
  -- @cold log/audit
  audit_append = audit_trail(owner, audit_log, chain, unsealed, days)
end
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZCARD', due .. ':other_graces') end

local inputs, digest
if evidence ~= '' then
  -- @cold evidence/queue
  inputs, digest = evidence_inputs(evidence, now)
  if inputs then kept[#kept + 1], kept[#kept + 2] = 'end_inputs', inputs end
end

-- Effects. First what was not read, the stream before the index: one of another type raises before anything returns.
if inputs then
  -- @cold evidence/place
  local entry = redis.call('XADD', unsigned, '*', 'kind', 'end', 'id', reservation_id, 'digest', digest)
  evidence_place(kept, entry, now)
end
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZREM', due .. ':other_graces', reservation_id) end
redis.call('ZREM', due, reservation_id)
redis.call('HSET', reservation, 'status', 'RELEASED', 'finalized_at_ms', int64_text(now), 'finish',
  key_digest .. ' ' .. payload_hash, unpack(kept))
for i = 1, #budgets do ledger_write_hold(budgets[i]) end
local logged = tenant == ''
if not eventless then
  -- @cold log/events, ledger/thresholds_crossed, ledger/ledger_events
  local events = events_new(event_log, outbox, owner, day, now, context, action_kind or '*')
  for _, budget in ipairs(budgets) do
    ledger_events(events, budget, unit, budget_scope(scope_path, budget.depth), thresholds)
  end
  events_point(events)
  logged = logged or events.count > 0
end
if audit_append then audit_append(now, {unpack(ARGV, audit_from)}) end
if logged then day_register(days, tenant_key, settings, owner, day, now) end
return reply
