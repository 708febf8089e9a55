#!lua
--[[ Written by `make signatures`, from the declaration in src/store/runtime/decide.rs.
Decides whether an estimate could be held now; holds nothing. Serves decide and the dry run of a create, whose outcome
is kept under the key of the reservation that it does not make.

KEYS[1]           read   api_key         hash    apikey:<key_id>
KEYS[2]           read   due             zset    due:<tenant>
KEYS[3]           write  tenant_key      hash    tenant:<tenant>
KEYS[4]           write  event_log       stream  events:<tenant>:<day>
KEYS[5]           write  outbox          stream  outbox
KEYS[6]           write  unsigned        stream  unsigned
KEYS[7]           write  days            zset    days
KEYS[8]           write  denials         hash    denials:<tenant>
KEYS[9]           write  denial_minutes  zset    denials
KEYS[10]          write  short_lived     hash    short_lived:<tenant>
KEYS[11]          write  outcome         hash    decision:<decision_id>  (if decision_id)
KEYS[11]          write  outcome         hash    rsv:<reservation_id>  (if reservation_id)
KEYS[12]          write  rates           hash    rates:<tenant>  (if stored_bytes)
KEYS[12 or 13..]  read   budgets         hash    budget:<tenant>:<unit>:<scope>
built             read                   hash    budget:<tenant>:<unit>:<scope>
built             write                  string  unsigned:<tenant>

ARGV[1]     budget_prefix      prefix budget:<tenant>:
ARGV[2]     day                yyyymmdd
ARGV[3]     day_start_ms       int64
ARGV[4]     key_hash           text                     Of the API key; empty for the admin key.
ARGV[5]     tenant             text
ARGV[6]     payload_hash       text
ARGV[7]     scope_path         text
ARGV[8]     unit               text
ARGV[9]     amount             int64
ARGV[10]    until_ms           int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[11]    outcome_status     text                     DECISION or DRY_RUN.
ARGV[12]    caps               text or ''               Of the policy that applies, JSON.
ARGV[13]    denied_per_minute  int64                    Above this number in a minute, denials are only counted.
ARGV[14]    context            text                     The request cause, lines of name and value.
ARGV[15]    retention_ms       int64                    Of the outcome.
ARGV[16]    policies_version   text
    The version of the tenant's policies from which the policy was chosen.
ARGV[17]    policy_from_ms     int64                    From then on the policy applies.
ARGV[18]    policy_until_ms    int64                    Until then the policy applies.
ARGV[19]    templates          text or ''
    The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
ARGV[20]    evidence           text or ''
    What evidence attests of the request, in lines; see `evidence/queue`.
ARGV[21]    stored_bytes       text or ''
    Bytes that evidence of the request stores, and how many a minute admits, if it counts.
ARGV[22..]  facts              to the end               Names and values of action and subject, action_kind first.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed now_ms record | tenant_unreadable | bytes_limited now_ms until_ms limit present | stale now_ms version |
  corrupt key | unit_mismatch scope units | attested now_ms refused | sweep_first now_ms | turn_first now_ms ledgers |
  deny now_ms reason | allow now_ms observed depths snapshots
Writes:
  On deny and allow: the outcome and the count of its bytes; on deny, and where budgets observe, the events; the count
  of bytes, and the entry of evidence. On attested: the entry and its count. Otherwise nothing.
]]
local api_key, due, tenant_key, event_log, outbox, unsigned, days, denials, denial_minutes, short_lived, outcome,
  rates = unpack(KEYS, 1, 12)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, scope_path, unit, amount, until_ms,
  outcome_status, caps, denied_per_minute, context, retention_ms, policies_version, policy_from_ms, policy_until_ms,
  templates, evidence, stored_bytes = unpack(ARGV, 1, 21)
local budgets_from = 12
local facts_from = 22
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, log/days, base/int64
-- @include ledger/budgets, ledger/budgets_of_keys, ledger/evaluate
-- @include ledger/evaluate_other_units, ledger/evaluate_dead_holds, log/events, log/denials, log/short_lived

-- A refusal after evaluation.
local function evaluated(now, ...)
  if evidence == '' then return {...} end
  -- @cold evidence/refusals
  return evidence_of_refusal(unsigned, evidence, now, tenant,
    {'scope_path', scope_path, 'unit', unit, 'amount', amount}, {...})
end

-- Refusals: read only, except for evidence of them.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:create', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden', why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', outcome, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return {'replayed', now, redis.call('HGETALL', outcome)} end
local tenant_refused, settings = tenant_refusal(tenant_key, 'policies')
if tenant_refused == 'tenant_unreadable' then return {tenant_refused} end
local counts
if stored_bytes ~= '' then
  -- @cold ledger/rates
  -- An absent key shifts the keys after it.
  budgets_from, counts = budgets_from + 1, rates_read(rates, now, '-', scope_path, 'bytes')
  counts.by, counts.max_bytes = stored_bytes:match('^(%d+) (%d+)$')
  if counts[1] >= tonumber(counts.max_bytes) then
    return {'bytes_limited', now, counts.until_ms, counts.max_bytes, counts[1]}
  end
end
local estimate = int64(amount)
local reason, blocking, budgets, corrupt
if tenant_refused then
  reason = tenant_refused == 'tenant_closed' and 'TENANT_CLOSED' or 'TENANT_SUSPENDED'
else
  local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
  if stale then return stale end
  budgets, corrupt = budgets_read(KEYS, budgets_from, templates)
  if not budgets then return {'corrupt', corrupt} end
  if #budgets == 0 then
    local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
    if scope then return evaluated(now, 'unit_mismatch', scope, units) end
    reason = 'BUDGET_NOT_FOUND'
  else
    if budgets.turn then
      -- @cold ledger/turns
      local first = turns_due(budgets, now, until_ms)
      if first then return first end
    end
    reason, blocking = evaluate_denial(budgets, estimate, now)
  end
end
local is_short = reason == 'BUDGET_EXCEEDED' or not reason and budgets.would_exceed
if is_short and evaluate_dead_holds(due, now, until_ms) then return {'sweep_first', now} end
local observed = not reason and budgets.observed and #budgets.observed > 0
local reply, kept
if reason then
  reply, kept = {'deny', now, reason}, {'decision', 'DENY', 'reason_code', reason}
else
  local decision, depths = caps == '' and 'ALLOW' or 'ALLOW_WITH_CAPS', {}
  reply, kept = {'allow', now, '', ''}, {'decision', decision}
  for _, budget in ipairs(budgets) do
    if not budget.is_virtual then
      depths[#depths + 1] = budget.depth
      local snapshot = budget_snapshot(budget)
      reply[4 + #depths] = snapshot
      if outcome_status == 'DRY_RUN' then kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, snapshot end
    end
  end
  reply[4] = table.concat(depths, ' ')
  kept[#kept + 1], kept[#kept + 2] = 'budgeted', reply[4]
  if observed then
    -- @cold ledger/observed
    reply[3] = observed_text(budgets)
    kept[#kept + 1], kept[#kept + 2] = 'observed', reply[3]
  end
  if caps ~= '' then kept[#kept + 1], kept[#kept + 2] = 'caps', caps end
end
if reason or observed then
  denials_check(denials, denial_minutes, event_log, outbox)
  day_check(days, settings, day)
end
local inputs, digest, request
if evidence ~= '' then
  -- @cold evidence/queue
  inputs, digest = evidence_inputs(evidence, now)
  request = evidence:match('^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n(.*)$')
end

-- Effects: none can fail.
local record = {'status', outcome_status, 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit, 'estimate', amount,
  'scope_path', scope_path, 'created_at_ms', int64_text(now), unpack(kept)}
if inputs then
  for _, word in ipairs({'inputs', inputs, 'request', request}) do record[#record + 1] = word end
  redis.call('XADD', unsigned, '*', 'kind', outcome_status:lower(), 'digest', digest, unpack(record))
end
redis.call('HSET', outcome, unpack(record))
redis.call('PEXPIRE', outcome, retention_ms)
short_lived_count(short_lived, outcome, now)
if counts then
  -- @cold ledger/rates_count
  rates_count(counts, 1, counts.by)
end
if reason or observed then
  local action_facts = {unpack(ARGV, facts_from)}
  local events = events_new(event_log, outbox, tenant, day, now, context, ARGV[facts_from + 1])
  if reason then
    local scope = blocking and budget_scope(scope_path, blocking.depth)
    denial_append(events, denials, denial_minutes, denied_per_minute, scope_path,
      denial_facts(reason, unit, estimate, blocking, scope, action_facts), 'reservation.denied')
  else
    -- @cold ledger/observed
    observed_append(events, {denials, denial_minutes, denied_per_minute}, budgets, scope_path, unit, estimate, action_facts)
  end
  day_register(days, tenant_key, settings, tenant, day, now)
  events_point(events)
end
return reply
