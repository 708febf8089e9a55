#!lua
--[[
reserve: holds an estimate on every budgeted scope of a subject, or on none.
KEYS[1] api_key         hash     KEYS[7]  event_log       stream  the tenant's, of the day
KEYS[2] tenant          hash     KEYS[8]  outbox          stream
KEYS[3] reservation     hash     KEYS[9]  days            zset
KEYS[4] reservations    zset     KEYS[10] denials         hash    the tenant's
KEYS[5] due             zset     KEYS[11] denial_minutes  zset
KEYS[6] due_tenants     zset     KEYS[12] rates           hash    where there is a policy with rate limits
KEYS[13..] budgets      hash     of the enclosing scopes, root first
Keys built: the same budgets in other units, read only.
ARGV[1] key_hash          ARGV[7]  unit                     ARGV[13] budget_prefix
ARGV[2] tenant            ARGV[8]  amount    int64          ARGV[14] reservation_id
ARGV[3] day  yyyymmdd     ARGV[9]  ttl_ms          or ''    ARGV[15] policy or '': overage_policy default_ttl_ms
ARGV[4] day_start_ms      ARGV[10] grace_ms                          max_ttl_ms max_extensions, '-' what it leaves open
ARGV[5] payload_hash      ARGV[11] overage_policy  or ''    ARGV[16] denied_per_minute
ARGV[6] scope_path        ARGV[12] swept_until_ms  or ''    ARGV[17] context of events, lines of name and value
ARGV[18] version of the tenant's policies    ARGV[19] from_ms  ARGV[20] until_ms  while the policy is the selected one
ARGV[21] rate limits of the policy or '': max_reservations_per_minute max_commits_per_minute policy_id
ARGV[22] n, then n names and values of action and subject, action_kind first, kept by the record and told by a denial,
then the names and values that only the record keeps.
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms
  | idempotency_mismatch | replayed now_ms record | tenant_unreadable | tenant_closed | tenant_suspended
  | stale now_ms version | rate_limited now_ms until_ms policy_id | corrupt what | unit_mismatch scope units
  | budget_not_found | sweep_first now_ms | denied reason scope remaining
  | reserved now_ms ttl_ms depths snapshot…
Writes on reserved: the record, its index, its due time, the budgets, the rates, events. On denied, tenant_closed: the event.
]]
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, base/days, base/int64
-- @include ledger/thresholds, ledger/budgets, ledger/budgets_of_keys, ledger/evaluate
-- @include ledger/overage_policy, ledger/ledger_hold, ledger/ledger_quiet
local api_key, tenant_key, reservation, reservations, due, due_tenants, event_log, outbox, days, denials, denial_minutes =
  unpack(KEYS, 1, 11)
local key_hash, tenant, day, day_start_ms, payload_hash, scope_path, unit, amount_text, ttl_text, grace_ms,
  overage_requested, swept_until_ms, budget_prefix, reservation_id, policy, denied_per_minute, context,
  policies_version, policy_from_ms, policy_until_ms, rate_limits = unpack(ARGV, 1, 21)
local request_end, action_kind = 22 + ARGV[22], ARGV[24]

-- Tells of a denial, or of what the moves of ledgers caused. What it needs is defined when it runs, which is seldom:
-- each function costs every call.
local function tell(now, settings, what)
  -- @include log/events, log/denials, ledger/thresholds_crossed, ledger/ledger_events
  local events = events_new(event_log, outbox, tenant, day, now, context, action_kind)
  if what.denied then
    denial_append(events, denials, denial_minutes, denied_per_minute, scope_path,
      denial_facts(what.denied, unit, int64(amount_text), what.budget, what.scope, {unpack(ARGV, 23, request_end)}))
    day_register(days, tenant_key, settings, tenant, day, now)
  else
    for _, budget in ipairs(what.moved) do
      ledger_events(events, budget, unit, budget_scope(scope_path, budget.depth), what.thresholds, true)
    end
  end
  events_point(events)
end

-- Refusals: read only, but for the event that tells of a denial.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:create', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden'} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', reservation, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return {'replayed', now, redis.call('HGETALL', reservation)} end

local tenant_refused, settings = tenant_refusal(tenant_key, 'policies', 'default_commit_overage_policy',
  'default_reservation_ttl_ms', 'max_reservation_ttl_ms', 'max_reservation_extensions')
local amount = int64(amount_text)
if tenant_refused == 'tenant_closed' then tell(now, settings, {denied = 'TENANT_CLOSED'}) end
if tenant_refused then return {tenant_refused} end
local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
if stale then return stale end

local first_budget, counts = 12, nil
if rate_limits ~= '' then
  -- @include ledger/rates
  local max_reservations, max_commits, policy_id = rate_limits:match('(%S+) (%S+) (%S+)')
  first_budget, counts = 13, rates_read(KEYS[12], now, policy_id, scope_path, 'reserved', 'committed')
  if counts[1] >= (tonumber(max_reservations) or math.huge) or counts[2] >= (tonumber(max_commits) or math.huge) then
    return {'rate_limited', now, counts.until_ms, policy_id}
  end
end
local budgets, corrupt = budgets_read(KEYS, first_budget)
if not budgets then return {'corrupt', corrupt} end
if #budgets == 0 then
  -- @include ledger/evaluate_other_units
  local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
  if scope then return {'unit_mismatch', scope, units} end
  return {'budget_not_found'}
end
local reason, blocking = evaluate_denial(budgets, amount)
if reason == 'BUDGET_EXCEEDED' then
  -- @include ledger/evaluate_dead_holds
  if evaluate_dead_holds(due, now, swept_until_ms) then return {'sweep_first', now} end
end
if reason then
  local scope = budget_scope(scope_path, blocking.depth)
  tell(now, settings, {denied = reason, budget = blocking, scope = scope})
  return {'denied', reason, scope, blocking.remaining}
end
local policy_overage, policy_ttl_ms, policy_max_ttl_ms, policy_extensions = policy:match('(%S+) (%S+) (%S+) (%S+)')
local overage_policy = overage_policy_of(overage_requested, policy_overage, budgets, settings)
local max_ttl_ms = tonumber(policy_max_ttl_ms) or tonumber(settings[TENANT_MAX_TTL] or 3600000)
local ttl_ms = tonumber(ttl_text) or tonumber(policy_ttl_ms) or tonumber(settings[TENANT_TTL] or 60000)
local max_extensions = int64(policy_extensions) or int64(settings[TENANT_EXTENSIONS] or '10')
if not (overage_policy and max_ttl_ms and ttl_ms and max_extensions) then return {'corrupt', tenant_key} end
ttl_ms = math.min(ttl_ms, max_ttl_ms)
local thresholds, quiet = thresholds_parse(settings[TENANT_THRESHOLDS]), true
local reply, kept = {'reserved', now, ttl_ms, ''}, {unpack(ARGV, 23)}
local depths, minus_amount = '', int64_sub(0, amount)
for i = 1, #budgets do
  local budget = budgets[i]
  if not ledger_move_hold(budget, minus_amount, amount) then return {'corrupt', budget.key} end
  quiet = quiet and ledger_quiet(budget, thresholds)
  depths = i == 1 and budget.depth or depths .. ' ' .. budget.depth
  reply[4 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, reply[4 + i]
end
reply[4] = depths
if not quiet then
  -- @include ledger/ledgers_untellable
  local unsound = ledgers_untellable(budgets, event_log, outbox)
  if unsound then return {'corrupt', unsound} end
end

-- Effects. First the indexes: they have not been read, and one of another type raises before anything is held.
local now_text, expires_at_ms = int64_text(now), now + ttl_ms
local due_ms = int64_text(expires_at_ms + grace_ms)
redis.call('ZADD', due, due_ms, reservation_id)
redis.call('ZADD', due_tenants, 'LT', due_ms, tenant)
redis.call('ZADD', reservations, now_text, reservation_id)
day_register(days, tenant_key, settings, tenant, day, now)
redis.call('HSET', reservation, 'status', 'ACTIVE', 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit,
  'estimate', amount_text, 'scope_path', scope_path, 'budgeted', depths, 'overage_policy', overage_policy,
  'created_at_ms', now_text, 'expires_at_ms', int64_text(expires_at_ms), 'grace_ms', grace_ms,
  'max_extensions', int64_text(max_extensions), unpack(kept))
if counts then
  -- @include ledger/rates_count
  rates_count(counts, 1)
end
for i = 1, #budgets do ledger_write_hold(budgets[i]) end
if not quiet then tell(now, settings, {moved = budgets, thresholds = thresholds}) end
return reply
