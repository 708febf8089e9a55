#!lua
--[[ Written by `make signatures`, from the declaration in src/store/runtime/reserve.rs.
Holds an estimate on every budgeted scope of a subject, or on none.

KEYS[1]           read   api_key         hash    apikey:<key_id>
KEYS[2]           write  tenant_key      hash    tenant:<tenant>
KEYS[3]           write  reservation     hash    rsv:<reservation_id>
KEYS[4]           write  reservations    zset    rsvs:<tenant>:<day>
KEYS[5]           write  due             zset    due:<tenant>
KEYS[6]           write  due_tenants     zset    due
KEYS[7]           write  event_log       stream  events:<tenant>:<day>
KEYS[8]           write  outbox          stream  outbox
KEYS[9]           write  unsigned        stream  unsigned
KEYS[10]          write  days            zset    days
KEYS[11]          write  denials         hash    denials:<tenant>
KEYS[12]          write  denial_minutes  zset    denials
KEYS[13]          write  other_graces    zset    due:<tenant>:other_graces  (if other_grace)
KEYS[14]          write  rates           hash    rates:<tenant>  (if rate_limits)
KEYS[13 to 15..]  write  budgets         hash    budget:<tenant>:<unit>:<scope>
built             read                   hash    budget:<tenant>:<unit>:<scope>
built             write                  string  unsigned:<tenant>

ARGV[1]               budget_prefix             prefix budget:<tenant>:
ARGV[2]               day                       yyyymmdd
ARGV[3]               day_start_ms              int64
ARGV[4]               key_hash                  text                     Of the API key; empty for the admin key.
ARGV[5]               tenant                    text
ARGV[6]               payload_hash              text
ARGV[7]               scope_path                text
ARGV[8]               unit                      text
ARGV[9]               amount                    int64
ARGV[10]              requested_ttl_ms          int64 or ''
ARGV[11]              grace_ms                  int64
ARGV[12]              requested_overage_policy  text or ''
ARGV[13]              until_ms                  int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[14]              reservation_id            text
ARGV[15]              policy                    text
    Overage policy, default_ttl_ms, max_ttl_ms and max_extensions of the policy that applies; - for what it leaves open.
ARGV[16]              denied_per_minute         int64
    Above this number in a minute, denials are only counted.
ARGV[17]              context                   text                     The request cause, lines of name and value.
ARGV[18]              policies_version          text
    The version of the tenant's policies from which the policy was chosen.
ARGV[19]              policy_from_ms            int64                    From then on the policy applies.
ARGV[20]              policy_until_ms           int64                    Until then the policy applies.
ARGV[21]              templates                 text or ''
    The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
ARGV[22]              rate_limits               text or ''
    max_reservations_per_minute, max_commits_per_minute and id of the policy, if it limits rates. Bytes that the request
    stores of its own, and how many a minute admits, if it counts. - for what is not limited.
ARGV[23]              evidence                  text or ''
    What evidence attests of the request, in lines; see `evidence/queue`.
ARGV[24]              facts                     n, then n more
    Names and values of action and subject, action_kind first: for the record and the event of a denial.
ARGV[facts_to + 1..]  kept                      to the end               Names and values that only the record keeps.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed now_ms record | tenant_unreadable | tenant_closed | tenant_suspended | stale now_ms version |
  rate_limited now_ms until_ms policy_id | bytes_limited now_ms until_ms limit present | corrupt key |
  unit_mismatch scope units | budget_not_found | sweep_first now_ms | turn_first now_ms ledgers |
  denied reason scope remaining snapshot holds_due_ms window | over_limit scope remaining since | create_first depths |
  attested now_ms refused | reserved now_ms ttl_ms observed depths snapshots
Writes:
  On reserved: the reservation, its index, its due time, its expiry where the grace is not the usual one, the ledgers,
  the rates, events, the entry of evidence. On denied, over_limit and tenant_closed: the event. On attested: the entry,
  its count, and what the refusal in it writes. Otherwise nothing.
]]
local api_key, tenant_key, reservation, reservations, due, due_tenants, event_log, outbox, unsigned, days, denials,
  denial_minutes, other_graces, rates = unpack(KEYS, 1, 14)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, scope_path, unit, amount, requested_ttl_ms,
  grace_ms, requested_overage_policy, until_ms, reservation_id, policy, denied_per_minute, context, policies_version,
  policy_from_ms, policy_until_ms, templates, rate_limits, evidence = unpack(ARGV, 1, 23)
local budgets_from = 13
local facts_from = 25
local facts_to = 24 + ARGV[24]
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, log/days, base/int64
-- @include ledger/thresholds, ledger/budgets, ledger/budgets_of_keys, ledger/evaluate
-- @include ledger/overage_policy, ledger/ledger_hold, ledger/no_threshold_crossed, ledger/reservation_replay
-- @include ledger/usual_grace, ledger/due_tenants
local action_kind = ARGV[facts_from + 1]

-- Emits the event of a denial, or those of the moves of ledgers.
local function emit(now, settings, what)
  -- @cold log/events, log/denials, ledger/thresholds_crossed, ledger/ledger_events
  local events = events_new(event_log, outbox, tenant, day, now, context, action_kind)
  if what.denied then
    denials_check(denials, denial_minutes, event_log, outbox)
    day_check(days, settings, day)
    if evidence ~= '' then
      -- @cold evidence/refusals
      evidence_check(unsigned, tenant)
    end
    denial_append(events, denials, denial_minutes, denied_per_minute, scope_path,
      denial_facts(what.denied, unit, int64(amount), what.budget, what.scope, {unpack(ARGV, facts_from, facts_to)}),
      'reservation.denied')
    day_register(days, tenant_key, settings, tenant, day, now)
  else
    if what.observed then
      -- @cold ledger/observed
      observed_append(events, {denials, denial_minutes, denied_per_minute}, what.moved, scope_path, unit, int64(amount),
        {unpack(ARGV, facts_from, facts_to)})
    end
    for _, budget in ipairs(what.moved) do
      ledger_events(events, budget, unit, budget_scope(scope_path, budget.depth), what.thresholds)
    end
  end
  events_point(events)
end

-- A refusal after evaluation.
local function evaluated(now, ...)
  if evidence == '' then return {...} end
  -- @cold evidence/refusals
  return evidence_of_refusal(unsigned, evidence, now, tenant,
    {'scope_path', scope_path, 'unit', unit, 'amount', amount}, {...})
end

-- Refusals: read only, except for the event of a denial and its evidence.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:create', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden', why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', reservation, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return creation_replay(reservation, now) end

local tenant_refused, settings = tenant_refusal(tenant_key, 'policies', 'bytes_full',
  'default_commit_overage_policy', 'default_reservation_ttl_ms', 'max_reservation_ttl_ms', 'max_reservation_extensions')
local estimate = int64(amount)
if tenant_refused == 'tenant_closed' then
  emit(now, settings, {denied = 'TENANT_CLOSED'})
  return evaluated(now, tenant_refused)
end
if tenant_refused then return {tenant_refused} end
local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
if stale then return stale end
if settings[TENANT_BYTES_FULL] then
  -- @cold ledger/bytes_full
  local limited = bytes_full_reply(settings[TENANT_BYTES_FULL], now)
  if limited then return limited end
end

-- An absent key shifts the keys after it.
if grace_ms == USUAL_GRACE_MS then rates = other_graces else budgets_from = budgets_from + 1 end
local counts
if rate_limits ~= '' then
  -- @cold ledger/rates
  local max_reservations, max_commits, policy_id, bytes, max_bytes = rate_limits:match('(%S+) (%S+) (%S+) (%S+) (%S+)')
  budgets_from, counts = budgets_from + 1, rates_read(rates, now, policy_id, scope_path, 'reserved', 'committed', 'bytes')
  counts.reserved_by, counts.bytes_by = policy_id ~= '-' and 1 or 0, tonumber(bytes) or 0
  if counts[1] >= (tonumber(max_reservations) or math.huge) or counts[2] >= (tonumber(max_commits) or math.huge) then
    return {'rate_limited', now, counts.until_ms, policy_id}
  end
  if counts[3] >= (tonumber(max_bytes) or math.huge) then
    return {'bytes_limited', now, counts.until_ms, max_bytes, counts[3]}
  end
end
local budgets, corrupt = budgets_read(KEYS, budgets_from, templates)
if not budgets then return {'corrupt', corrupt} end
if #budgets == 0 then
  -- @cold ledger/evaluate_other_units
  local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
  if scope then return evaluated(now, 'unit_mismatch', scope, units) end
  return {'budget_not_found'}
end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end
local reason, blocking = evaluate_denial(budgets, estimate, now)
local last_due_ms
if reason == 'BUDGET_EXCEEDED' or not reason and budgets.would_exceed then
  -- @cold ledger/evaluate_dead_holds
  if evaluate_dead_holds(due, now, until_ms) then return {'sweep_first', now} end
  last_due_ms = reason and evaluate_last_hold(due)
end
if reason then
  local scope = budget_scope(scope_path, blocking.depth)
  local since = reason == 'OVERDRAFT_LIMIT_EXCEEDED' and budget_field(blocking.key, 'over_limit_by')
  emit(now, settings, {denied = reason, budget = blocking, scope = scope})
  if since then return evaluated(now, 'over_limit', scope, blocking.remaining, since) end
  if last_due_ms then
    return evaluated(now, 'denied', reason, scope, blocking.remaining, budget_snapshot(blocking), last_due_ms,
      blocking.full)
  end
  return evaluated(now, 'denied', reason, scope, blocking.remaining)
end
if budgets.create_first then return {'create_first', budgets.create_first} end
local policy_overage, policy_ttl_ms, policy_max_ttl_ms, policy_extensions = policy:match('(%S+) (%S+) (%S+) (%S+)')
local overage_policy = overage_policy_of(requested_overage_policy, policy_overage, budgets, settings)
local max_ttl_ms = tonumber(policy_max_ttl_ms) or tonumber(settings[TENANT_MAX_TTL] or 3600000)
local ttl_ms = tonumber(requested_ttl_ms) or tonumber(policy_ttl_ms) or tonumber(settings[TENANT_TTL] or 60000)
local max_extensions = int64(policy_extensions) or int64(settings[TENANT_EXTENSIONS] or '10')
if not (overage_policy and max_ttl_ms and ttl_ms and max_extensions) then return {'corrupt', tenant_key} end
ttl_ms = math.min(ttl_ms, max_ttl_ms)
local thresholds, eventless = thresholds_parse(settings[TENANT_THRESHOLDS]), true
local reply, kept = {'reserved', now, ttl_ms, '', ''}, {unpack(ARGV, facts_from)}
local depths, minus_estimate = '', int64_sub(0, estimate)
for i = 1, #budgets do
  local budget = budgets[i]
  if not ledger_move_hold(budget, minus_estimate, estimate) then return {'corrupt', budget.key} end
  eventless = eventless and no_threshold_crossed(budget, thresholds, now)
  depths = i == 1 and budget.depth or depths .. ' ' .. budget.depth
  reply[5 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, reply[5 + i]
end
reply[5] = depths
local observed = budgets.observed and #budgets.observed > 0
if observed then
  -- @cold ledger/observed
  reply[4], eventless = observed_text(budgets), false
  kept[#kept + 1], kept[#kept + 2] = 'observed', reply[4]
  denials_check(denials, denial_minutes, event_log, outbox)
end
if not eventless then
  -- @cold ledger/event_preconditions
  local corrupt_key = event_preconditions(budgets, event_log, outbox)
  if corrupt_key then return {'corrupt', corrupt_key} end
end
day_check(days, settings, day)
local inputs, digest
if evidence ~= '' then
  -- @cold evidence/queue
  inputs, digest = evidence_inputs(evidence, now)
  if inputs then kept[#kept + 1], kept[#kept + 2] = 'create_inputs', inputs end
end

-- Effects. First what was not read, the stream before the indexes: one of another type raises before anything is held.
if inputs then
  -- @cold evidence/place
  local entry = redis.call('XADD', unsigned, '*', 'kind', 'create', 'id', reservation_id, 'digest', digest)
  evidence_place(kept, entry, now)
end
local now_text, expires_at_ms = int64_text(now), now + ttl_ms
local due_ms = int64_text(expires_at_ms + grace_ms)
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZADD', other_graces, int64_text(expires_at_ms), reservation_id) end
redis.call('ZADD', due, due_ms, reservation_id)
due_tenants_enter(due_tenants, due_ms, tenant)
redis.call('ZADD', reservations, now_text, reservation_id)
day_register(days, tenant_key, settings, tenant, day, now)
redis.call('HSET', reservation, 'status', 'ACTIVE', 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit,
  'estimate', amount, 'scope_path', scope_path, 'budgeted', depths, 'overage_policy', overage_policy,
  'created_at_ms', now_text, 'expires_at_ms', int64_text(expires_at_ms), 'grace_ms', grace_ms,
  'max_extensions', int64_text(max_extensions), unpack(kept))
for i = 1, #budgets do ledger_write_hold(budgets[i]) end
if counts then
  -- @cold ledger/rates_count
  if counts.reserved_by > 0 then rates_count(counts, 1, counts.reserved_by) end
  if counts.bytes_by > 0 then rates_count(counts, 3, counts.bytes_by) end
end
if not eventless then emit(now, settings, {moved = budgets, observed = observed, thresholds = thresholds}) end
return reply
