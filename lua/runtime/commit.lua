#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/commit.rs.
Ends an active reservation with a charge. The actual amount is charged, the rest of the hold returns. What goes beyond
the hold is charged as the overage policy of the reservation allows.

KEYS[1]   read   api_key                hash    apikey:<key_id>
KEYS[2]   write  tenant_key             hash    tenant:<tenant>
KEYS[3]   write  reservation            hash    rsv:<reservation_id>
KEYS[4]   write  due                    zset    due:<tenant>
KEYS[5]   write  event_log              stream  events:<tenant>:<day>
KEYS[6]   write  outbox                 stream  outbox
KEYS[7]   write  unsigned               stream  unsigned
KEYS[8]   write  days                   zset    days
KEYS[9]   write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[10]  write  rates                  hash    rates:<tenant>
KEYS[11]  write  usage                  hash    usage:<tenant>:<day>
built     write                         hash    budget:<tenant>:<unit>:<scope>
built     write                         zset    due:<tenant>:other_graces
built     write                         string  unsigned:<tenant>
built     write                         hash    usage:<tenant>:<day>:<number>

ARGV[1]     budget_prefix   prefix budget:<tenant>:
ARGV[2]     day             yyyymmdd
ARGV[3]     day_start_ms    int64
ARGV[4]     key_hash        text                     Of the API key; empty for the admin key.
ARGV[5]     tenant          text
ARGV[6]     payload_hash    text
ARGV[7]     unit            text
ARGV[8]     actual          int64
ARGV[9]     key_digest      text                     Of the idempotency key.
ARGV[10]    until_ms        int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[11]    reservation_id  text
ARGV[12]    context         text                     The request cause, lines of name and value.
ARGV[13]    stored_bytes    text or ''
    Bytes that the request stores of its own, and how many a minute admits, if it counts.
ARGV[14]    evidence        text or ''
    What evidence attests of the request, in lines; see `evidence/queue`.
ARGV[15..]  kept            to the end               Names and values that the record keeps.

Replies, the first that applies:
  unauthorized why | forbidden permission | clock now_ms | not_found | foreign | scope_forbidden filter |
  idempotency_mismatch | replayed now_ms record | tenant_unreadable | tenant_closed | expired | finalized status |
  unit_mismatch scope units | corrupt key | overage_rejected scope reserved | sweep_first now_ms |
  turn_first now_ms ledgers | denied reason scope remaining snapshot holds_due_ms window | attested now_ms refused |
  committed now_ms unit charged released depths scope_path overage_policy overage snapshots
Writes:
  On committed: the reservation, its due time and expiry, the ledgers, the usage of the day, their place in the index of
  those over their limit or in debt, events, the rates where a policy counts commits, the bytes where the request
  counts, and the entry of evidence. On attested: the entry and its count. Otherwise nothing.
]]
local api_key, tenant_key, reservation, due, event_log, outbox, unsigned, days, over_limit_or_in_debt, rates, usage
  = unpack(KEYS)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, unit, actual, key_digest, until_ms,
  reservation_id, context, stored_bytes, evidence = unpack(ARGV, 1, 14)
local kept_from = 15
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, base/int64, ledger/thresholds, ledger/budgets
-- @include ledger/budgets_of_record
-- @include ledger/overage_policy_known, ledger/ledger_hold, ledger/ledger_charge, ledger/no_threshold_crossed
-- @include ledger/reservation, ledger/usual_grace

-- A refusal after evaluation.
local function evaluated(now, ...)
  if evidence == '' then return {...} end
  -- @cold evidence/refusals
  return evidence_of_refusal(unsigned, evidence, now, tenant,
    {'reservation_id', reservation_id, 'unit', unit, 'amount', actual}, {...})
end

-- Refusals: read only, except for evidence of them.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:commit', now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local record = reservation_read(reservation, 'unit', 'estimate', 'budgeted', 'overage_policy', 'expires_at_ms',
  'grace_ms', 'counting_policy', 'action_kind', 'action_name', 'key_id')
local refused, filter = reservation_refusal(record, tenant, why)
if refused then return {refused, filter} end
local status, _, scope_path, held_unit, estimate_text, depths, overage_policy, expires_at_ms, grace_ms,
  counting_policy, action_kind, action_name, key_id = unpack(record, 1, 14)
if status == 'COMMITTED' then
  -- @cold ledger/reservation_replay
  local replay = reservation_replay(reservation, key_digest, payload_hash, now)
  if replay then return replay end
end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_closed' then return evaluated(now, tenant_refused) end
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
if status == 'EXPIRED' then return evaluated(now, 'expired') end
if status ~= 'ACTIVE' then return evaluated(now, 'finalized', status) end
if not (expires_at_ms and grace_ms and estimate_text and depths and overage_policy_known(overage_policy)) then
  return {'corrupt', reservation}
end
-- A commit that arrived in time stays in time, even if dead holds had to be expired or ledgers to turn first.
local received_ms = until_ms ~= '' and math.min(now, tonumber(until_ms)) or now
if received_ms > expires_at_ms + grace_ms then return evaluated(now, 'expired') end
if unit ~= held_unit then return evaluated(now, 'unit_mismatch', scope_path, held_unit) end
local budgets, corrupt = budgets_of_record(budget_prefix, unit, scope_path, depths)
if not budgets then return {'corrupt', corrupt} end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end

local estimate, used = int64(estimate_text), int64(actual)
if not estimate then return {'corrupt', reservation} end
local overage = int64_sub(used, estimate)
local charged, returned, beyond = used, int64_sub(estimate, used), int64_lt(0, overage)
local compared = 'within'
if beyond then
  -- @cold ledger/evaluate_dead_holds, ledger/overage
  if overage_policy == 'REJECT' then return evaluated(now, 'overage_rejected', scope_path, estimate_text) end
  if overage_short(budgets, overage) and evaluate_dead_holds(due, now, until_ms) then return {'sweep_first', now} end
  local charge, reason, blocking = overage_charge(budgets, overage, overage_policy)
  if not charge then
    return evaluated(now, 'denied', reason, budget_scope(scope_path, blocking.depth), blocking.remaining)
  end
  charged, returned = int64_add(estimate, charge), int64_sub(0, charge)
  compared = int64_lt(charge, overage) and 'capped' or 'beyond'
end
local thresholds, eventless, minus_estimate = thresholds_parse(settings[TENANT_THRESHOLDS]), true, int64_sub(0, estimate)
local reply = {'committed', now, unit, charged, 0, depths, scope_path, overage_policy, compared}
local kept = {unpack(ARGV, kept_from)}
if int64_lt(charged, estimate) then reply[5] = int64_sub(estimate, charged) end
for i = 1, #budgets do
  local budget = budgets[i]
  local debt_by = budget.deficit or 0
  if not ledger_move_charge(budget, returned, minus_estimate, int64_sub(charged, debt_by), debt_by) then
    return {'corrupt', budget.key}
  end
  eventless = eventless and no_threshold_crossed(budget, thresholds, now)
  reply[9 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'commit.' .. budget.depth, reply[9 + i]
  if budget.epoch and budget.epoch ~= '0' then kept[#kept + 1], kept[#kept + 2] = 'epoch.' .. budget.depth, budget.epoch end
  if debt_by ~= 0 then
    kept[#kept + 1], kept[#kept + 2], reply[9] = 'debt.' .. budget.depth, debt_by, 'debt'
  end
end
if budgets.terms then
  -- @cold ledger/windows_charge
  windows_charge(budgets, charged, now)
end
if beyond or not eventless then
  -- @cold ledger/event_preconditions
  local corrupt_key = event_preconditions(budgets, event_log, outbox)
  if corrupt_key then return {'corrupt', corrupt_key} end
  redis.call('ZCARD', over_limit_or_in_debt)
end
if settings[TENANT_DAY] ~= day then
  -- @cold log/days
  day_check(days, settings, day)
end
local counts
if counting_policy or stored_bytes ~= '' then
  -- @cold ledger/rates
  counts = rates_read(rates, now, counting_policy or '-', scope_path, 'committed', 'bytes')
end
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZCARD', due .. ':other_graces') end
local count_usage
do
  -- @cold ledger/usage
  count_usage = usage_count(usage, usage_combination(unit, scope_path, key_id, action_kind, action_name), charged, 1, 0)
end

local inputs, digest
if evidence ~= '' then
  -- @cold evidence/queue
  inputs, digest = evidence_inputs(evidence, now)
  if inputs then kept[#kept + 1], kept[#kept + 2] = 'end_inputs', inputs end
end

-- Effects. First what was not read, the stream before the index: one of another type raises before anything is charged.
if inputs then
  -- @cold evidence/place
  local entry = redis.call('XADD', unsigned, '*', 'kind', 'end', 'id', reservation_id, 'digest', digest)
  evidence_place(kept, entry, now)
end
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZREM', due .. ':other_graces', reservation_id) end
redis.call('ZREM', due, reservation_id)
if settings[TENANT_DAY] ~= day then
  -- @cold log/days
  day_register(days, tenant_key, settings, tenant, day, now)
end
redis.call('HSET', reservation, 'status', 'COMMITTED', 'charged', int64_text(charged), 'finalized_at_ms', int64_text(now),
  'finish', key_digest .. ' ' .. payload_hash, unpack(kept))
for i = 1, #budgets do ledger_write_charge(budgets[i], reservation_id) end
count_usage()
if counts then
  -- @cold ledger/rates_count
  if counting_policy then rates_count(counts, 1, 1) end
  if stored_bytes ~= '' then
    -- @cold ledger/bytes_count
    bytes_count(tenant_key, counts, 2, stored_bytes)
  end
end
if beyond or not eventless then
  -- @cold log/events, ledger/thresholds_crossed, ledger/ledger_events, ledger/over_limit_or_in_debt
  local events = events_new(event_log, outbox, tenant, day, now, context, action_kind or '*')
  if beyond then
    local debt_incurred = 0
    for _, budget in ipairs(budgets) do debt_incurred = int64_add(debt_incurred, budget.deficit or 0) or INT64_MAX end
    event_append(events, 'reservation.commit_overage', scope_path, {'data.reservation_id', reservation_id,
      'data.unit', unit, 'data.estimated_amount', estimate, 'data.actual_amount', used, 'data.overage', overage,
      'data.overage_policy', overage_policy, 'data.debt_incurred', debt_incurred})
  end
  for _, budget in ipairs(budgets) do
    local scope = budget_scope(scope_path, budget.depth)
    if budget.debt_by ~= 0 or budget.becomes_over then
      over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
    end
    ledger_events(events, budget, unit, scope, thresholds,
      {'data.reservation_id', reservation_id, 'data.overage_policy', overage_policy})
  end
  events_point(events)
end
return reply
