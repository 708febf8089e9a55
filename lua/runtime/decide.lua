#!lua
--[[
decide: whether an estimate could be held now; holds nothing. Serves decide and the dry run of a create, whose outcome
stands under the key of the reservation that it did not make.
KEYS[1] api_key  hash    KEYS[4] due        zset             KEYS[7] days            zset
KEYS[2] tenant   hash    KEYS[5] event_log  stream, the day  KEYS[8] denials         hash   the tenant's
KEYS[3] outcome  hash    KEYS[6] outbox     stream           KEYS[9] denial_minutes  zset
KEYS[10..] budgets hash, of the enclosing scopes, root first. Keys built: the same budgets in other units, read only.
ARGV[1] key_hash        ARGV[6] scope_path          ARGV[11] status of the outcome: DECISION | DRY_RUN
ARGV[2] tenant          ARGV[7] unit                ARGV[12] caps of the selected policy, JSON, or ''
ARGV[3] day yyyymmdd    ARGV[8] amount   int64      ARGV[13] denied_per_minute
ARGV[4] day_start_ms    ARGV[9] swept_until_ms, ''  ARGV[14] context of events, lines of name and value
ARGV[5] payload_hash    ARGV[10] budget_prefix      ARGV[15] retention_ms of the outcome
ARGV[16] version of the tenant's policies    ARGV[17] from_ms  ARGV[18] until_ms  while the policy is the selected one
ARGV[19..] names and values of action and subject, action_kind first
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms
  | idempotency_mismatch | replayed now_ms record | tenant_unreadable | stale now_ms version | corrupt what
  | unit_mismatch scope units | sweep_first now_ms | decided now_ms DENY reason | decided now_ms ALLOW|ALLOW_WITH_CAPS depths snapshot…
Writes on decided: the outcome; of a denial the event. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, base/days, base/int64
-- @include ledger/budgets, ledger/budgets_of_keys, ledger/evaluate
-- @include ledger/evaluate_other_units, ledger/evaluate_dead_holds, log/events, log/denials
local api_key, tenant_key, outcome, due, event_log, outbox, days, denials, denial_minutes = unpack(KEYS, 1, 9)
local key_hash, tenant, day, day_start_ms, payload_hash, scope_path, unit, amount_text, swept_until_ms, budget_prefix,
  outcome_status, caps, denied_per_minute, context, retention_ms, policies_version, policy_from_ms, policy_until_ms =
  unpack(ARGV, 1, 18)

-- Refusals: read only.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:create', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden'} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', outcome, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return {'replayed', now, redis.call('HGETALL', outcome)} end
local tenant_refused, settings = tenant_refusal(tenant_key, 'policies')
if tenant_refused == 'tenant_unreadable' then return {tenant_refused} end
local amount = int64(amount_text)
local reason, blocking, budgets, corrupt
if tenant_refused then
  reason = tenant_refused == 'tenant_closed' and 'TENANT_CLOSED' or 'TENANT_SUSPENDED'
else
  local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
  if stale then return stale end
  budgets, corrupt = budgets_read(KEYS, 10)
  if not budgets then return {'corrupt', corrupt} end
  if #budgets == 0 then
    local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
    if scope then return {'unit_mismatch', scope, units} end
    reason = 'BUDGET_NOT_FOUND'
  else
    reason, blocking = evaluate_denial(budgets, amount)
  end
end
if reason == 'BUDGET_EXCEEDED' and evaluate_dead_holds(due, now, swept_until_ms) then return {'sweep_first', now} end
local reply, kept
if reason then
  reply, kept = {'decided', now, 'DENY', reason}, {'decision', 'DENY', 'reason_code', reason}
else
  local decision, depths = caps == '' and 'ALLOW' or 'ALLOW_WITH_CAPS', {}
  reply, kept = {'decided', now, decision, ''}, {'decision', decision}
  for i, budget in ipairs(budgets) do
    depths[i] = budget.depth
    reply[4 + i] = budget_snapshot(budget)
    if outcome_status == 'DRY_RUN' then kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, reply[4 + i] end
  end
  reply[4] = table.concat(depths, ' ')
  kept[#kept + 1], kept[#kept + 2] = 'budgeted', reply[4]
  if caps ~= '' then kept[#kept + 1], kept[#kept + 2] = 'caps', caps end
end

-- Effects: none can fail.
redis.call('HSET', outcome, 'status', outcome_status, 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit,
  'estimate', amount_text, 'scope_path', scope_path, 'created_at_ms', now, unpack(kept))
redis.call('PEXPIRE', outcome, retention_ms)
if reason then
  local scope = blocking and budget_scope(scope_path, blocking.depth)
  local events = events_new(event_log, outbox, tenant, day, now, context, ARGV[20])
  denial_append(events, denials, denial_minutes, denied_per_minute, scope_path,
    denial_facts(reason, unit, amount, blocking, scope, {unpack(ARGV, 19)}))
  day_register(days, tenant_key, settings, tenant, day, now)
  events_point(events)
end
return reply
