#!lua
--[[
event: charges what was already spent, without a reservation, to every budgeted scope of a subject.
KEYS[1] api_key    hash      KEYS[4] posts      zset    the day's, by time    KEYS[7] outbox    stream
KEYS[2] tenant     hash      KEYS[5] due        zset                          KEYS[8] days      zset
KEYS[3] post       hash      KEYS[6] event_log  stream  of the day            KEYS[9] strained  zset
KEYS[10..] budgets hash, root first
Keys built: the same budgets in other units, read only.
ARGV[1] key_hash        ARGV[6] scope_path              ARGV[11] budget_prefix
ARGV[2] tenant          ARGV[7] unit                    ARGV[12] post_id
ARGV[3] day yyyymmdd    ARGV[8] actual       int64      ARGV[13] policy or '', as in reserve
ARGV[4] day_start_ms    ARGV[9] overage_policy   or ''  ARGV[14] context of events, lines of name and value
ARGV[5] payload_hash    ARGV[10] swept_until_ms  or ''  ARGV[15] action_kind
ARGV[16] version of the tenant's policies    ARGV[17] from_ms  ARGV[18] until_ms  while the policy is the selected one
ARGV[19..] names and values that the record keeps
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms
  | idempotency_mismatch | replayed now_ms record | tenant_unreadable | tenant_closed | tenant_suspended
  | stale now_ms version | corrupt what | unit_mismatch scope units | budget_not_found | inactive status scope | sweep_first now_ms
  | denied reason scope remaining | applied now_ms charged depths snapshot…
Writes on applied: the record, its index, the budgets, their place among the strained, events. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, base/days, base/int64
-- @include ledger/thresholds, ledger/budgets, ledger/budgets_of_keys
-- @include ledger/evaluate_dead_holds, ledger/overage_policy, ledger/overage, ledger/ledger_hold, ledger/ledger_charge
-- @include ledger/ledger_quiet
local api_key, tenant_key, post, posts, due, event_log, outbox, days, strained = unpack(KEYS, 1, 9)
local key_hash, tenant, day, day_start_ms, payload_hash, scope_path, unit, actual_text, overage_requested, swept_until_ms,
  budget_prefix, post_id, policy, context, action_kind, policies_version, policy_from_ms, policy_until_ms =
  unpack(ARGV, 1, 18)

-- Refusals: read only.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:commit', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden'} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', post, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return {'replayed', now, redis.call('HGETALL', post)} end
local tenant_refused, settings = tenant_refusal(tenant_key, 'policies', 'default_commit_overage_policy')
if tenant_refused then return {tenant_refused} end
local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
if stale then return stale end
local budgets, corrupt = budgets_read(KEYS, 10)
if not budgets then return {'corrupt', corrupt} end
if #budgets == 0 then
  -- @include ledger/evaluate_other_units
  local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
  if scope then return {'unit_mismatch', scope, units} end
  return {'budget_not_found'}
end
for _, budget in ipairs(budgets) do
  if budget.status ~= 'ACTIVE' then return {'inactive', budget.status, budget_scope(scope_path, budget.depth)} end
end
local policy_overage = policy:match('^(%S+)')
local overage_policy = overage_policy_of(overage_requested, policy_overage, budgets, settings)
if not overage_policy then return {'corrupt', tenant_key} end
local actual = int64(actual_text)
if actual ~= 0 and overage_short(budgets, actual) and evaluate_dead_holds(due, now, swept_until_ms) then
  return {'sweep_first', now}
end
local charged, reason, blocking = overage_charge(budgets, actual, overage_policy)
if not charged then return {'denied', reason, budget_scope(scope_path, blocking.depth), blocking.remaining} end
local thresholds, quiet = thresholds_parse(settings[TENANT_THRESHOLDS]), true
local reply, kept = {'applied', now, charged, ''}, {unpack(ARGV, 19)}
local depths, minus_charged = '', int64_sub(0, charged)
for i = 1, #budgets do
  local budget = budgets[i]
  local debt_by = budget.deficit or 0
  if not ledger_move_charge(budget, minus_charged, 0, int64_sub(charged, debt_by), debt_by) then
    return {'corrupt', budget.key}
  end
  quiet = quiet and ledger_quiet(budget, thresholds)
  depths = i == 1 and budget.depth or depths .. ' ' .. budget.depth
  reply[4 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, reply[4 + i]
  if debt_by ~= 0 then kept[#kept + 1], kept[#kept + 2] = 'debt.' .. budget.depth, debt_by end
end
reply[4] = depths
if not quiet then
  -- @include ledger/ledgers_untellable
  local unsound = ledgers_untellable(budgets, event_log, outbox)
  if unsound then return {'corrupt', unsound} end
  redis.call('ZCARD', strained)
end

-- Effects. First the indexes: they have not been read, and one of another type raises before anything is charged.
redis.call('ZADD', posts, now, post_id)
day_register(days, tenant_key, settings, tenant, day, now)
redis.call('HSET', post, 'status', 'APPLIED', 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit,
  'actual', actual_text, 'charged', charged, 'scope_path', scope_path, 'budgeted', depths,
  'overage_policy', overage_policy, 'created_at_ms', now, unpack(kept))
for i = 1, #budgets do ledger_write_charge(budgets[i]) end
if not quiet then
  -- @include log/events, ledger/thresholds_crossed, ledger/ledger_events, ledger/strained
  local events = events_new(event_log, outbox, tenant, day, now, context, action_kind)
  for _, budget in ipairs(budgets) do
    local scope = budget_scope(scope_path, budget.depth)
    if budget.debt_by ~= 0 or budget.becomes_over then
      strained_write(strained, tenant .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
    end
    ledger_events(events, budget, unit, scope, thresholds, true, {'data.overage_policy', overage_policy})
  end
  events_point(events)
end
return reply
