#!lua
--[[ Written by `make signatures`, from the declaration in src/store/runtime/usage_event.rs.
Charges what was already used, without a reservation, to every budgeted scope of a subject.

KEYS[1]           read   api_key                hash    apikey:<key_id>
KEYS[2]           read   due                    zset    due:<tenant>
KEYS[3]           write  tenant_key             hash    tenant:<tenant>
KEYS[4]           write  usage_event            hash    usage_event:<event_id>
KEYS[5]           write  usage_events           zset    usage_events:<tenant>:<day>
KEYS[6]           write  event_log              stream  events:<tenant>:<day>
KEYS[7]           write  outbox                 stream  outbox
KEYS[8]           write  days                   zset    days
KEYS[9]           write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[10]          write  usage                  hash    usage:<tenant>:<day>
KEYS[11]          write  rates                  hash    rates:<tenant>  (if stored_bytes)
KEYS[11 or 12..]  write  budgets                hash    budget:<tenant>:<unit>:<scope>
built             read                          hash    budget:<tenant>:<unit>:<scope>
built             write                         hash    usage:<tenant>:<day>:<number>

ARGV[1]     budget_prefix             prefix budget:<tenant>:
ARGV[2]     day                       yyyymmdd
ARGV[3]     day_start_ms              int64
ARGV[4]     key_hash                  text                     Of the API key; empty for the admin key.
ARGV[5]     tenant                    text
ARGV[6]     payload_hash              text
ARGV[7]     scope_path                text
ARGV[8]     unit                      text
ARGV[9]     actual                    int64
ARGV[10]    requested_overage_policy  text or ''
ARGV[11]    until_ms                  int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[12]    event_id                  text
ARGV[13]    policy                    text                     As in reserve.
ARGV[14]    context                   text                     The request cause, lines of name and value.
ARGV[15]    policies_version          text
    The version of the tenant's policies from which the policy was chosen.
ARGV[16]    policy_from_ms            int64                    From then on the policy applies.
ARGV[17]    policy_until_ms           int64                    Until then the policy applies.
ARGV[18]    templates                 text or ''
    The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
ARGV[19]    stored_bytes              text or ''
    Bytes that the request stores of its own, and how many a minute admits, if it counts.
ARGV[20..]  kept                      to the end               Kind and name of the action and the API key come first.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed now_ms record | tenant_unreadable | tenant_closed | tenant_suspended | stale now_ms version |
  bytes_limited now_ms until_ms limit present | corrupt key | unit_mismatch scope units | budget_not_found |
  inactive status scope | sweep_first now_ms | turn_first now_ms ledgers |
  denied reason scope remaining snapshot holds_due_ms window | create_first depths |
  applied now_ms charged depths snapshots
Writes:
  On applied: the usage event, its index, the usage of the day, the ledgers, their place in the index of those over
  their limit or in debt, events; and the bytes, where it counts. Otherwise nothing.
]]
local api_key, due, tenant_key, usage_event, usage_events, event_log, outbox, days, over_limit_or_in_debt, usage,
  rates = unpack(KEYS, 1, 11)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, scope_path, unit, actual,
  requested_overage_policy, until_ms, event_id, policy, context, policies_version, policy_from_ms, policy_until_ms,
  templates, stored_bytes = unpack(ARGV, 1, 19)
local budgets_from = 11
local kept_from = 20
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, ledger/policies, log/days, base/int64
-- @include ledger/thresholds, ledger/budgets, ledger/budgets_of_keys
-- @include ledger/evaluate_dead_holds, ledger/overage_policy, ledger/overage, ledger/ledger_hold, ledger/ledger_charge
-- @include ledger/no_threshold_crossed
local action_kind, action_name, key_id = ARGV[kept_from + 1], ARGV[kept_from + 3], ARGV[kept_from + 5]

-- Refusals: read only.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:commit', now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden', why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_hash = redis.call('HGET', usage_event, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return {'replayed', now, redis.call('HGETALL', usage_event)} end
local tenant_refused, settings = tenant_refusal(tenant_key, 'policies', 'bytes_full',
  'default_commit_overage_policy')
if tenant_refused then return {tenant_refused} end
local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
if stale then return stale end
if settings[TENANT_BYTES_FULL] then
  -- @cold ledger/bytes_full
  local limited = bytes_full_reply(settings[TENANT_BYTES_FULL], now)
  if limited then return limited end
end
local counts
if stored_bytes ~= '' then
  -- @cold ledger/rates
  local max_bytes = stored_bytes:match(' (%d+)$')
  budgets_from, counts = budgets_from + 1, rates_read(rates, now, '-', scope_path, 'bytes')
  if counts[1] >= tonumber(max_bytes) then return {'bytes_limited', now, counts.until_ms, max_bytes, counts[1]} end
end
local budgets, corrupt = budgets_read(KEYS, budgets_from, templates)
if not budgets then return {'corrupt', corrupt} end
if #budgets == 0 then
  -- @cold ledger/evaluate_other_units
  local scope, units = evaluate_other_units(budget_prefix, unit, scope_path)
  if scope then return {'unit_mismatch', scope, units} end
  return {'budget_not_found'}
end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end
for _, budget in ipairs(budgets) do
  if budget.status ~= 'ACTIVE' then return {'inactive', budget.status, budget_scope(scope_path, budget.depth)} end
end
local policy_overage = policy:match('^(%S+)')
local overage_policy = overage_policy_of(requested_overage_policy, policy_overage, budgets, settings)
if not overage_policy then return {'corrupt', tenant_key} end
local used = int64(actual)
local short
if overage_policy == 'REJECT' and budgets.terms then
  -- @cold ledger/terms
  short = terms_short(budgets, used, now)
else
  short = used ~= 0 and overage_short(budgets, used)
end
if short and evaluate_dead_holds(due, now, until_ms) then return {'sweep_first', now} end
local charged, reason, blocking
if short and short.full then
  reason, blocking = 'BUDGET_EXCEEDED', short
else
  charged, reason, blocking = overage_charge(budgets, used, overage_policy)
end
if not charged then
  local scope, is_short = budget_scope(scope_path, blocking.depth), reason == 'BUDGET_EXCEEDED'
  return {'denied', reason, scope, blocking.remaining, is_short and budget_snapshot(blocking), is_short and evaluate_last_hold(due),
    blocking.full}
end
if budgets.create_first then return {'create_first', budgets.create_first} end
local thresholds, eventless = thresholds_parse(settings[TENANT_THRESHOLDS]), true
local reply, kept = {'applied', now, charged, ''}, {unpack(ARGV, kept_from)}
local depths, minus_charged = '', int64_sub(0, charged)
for i = 1, #budgets do
  local budget = budgets[i]
  local debt_by = budget.deficit or 0
  if not ledger_move_charge(budget, minus_charged, 0, int64_sub(charged, debt_by), debt_by) then
    return {'corrupt', budget.key}
  end
  eventless = eventless and no_threshold_crossed(budget, thresholds, now)
  depths = i == 1 and budget.depth or depths .. ' ' .. budget.depth
  reply[4 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'create.' .. budget.depth, reply[4 + i]
  if budget.epoch and budget.epoch ~= '0' then kept[#kept + 1], kept[#kept + 2] = 'epoch.' .. budget.depth, budget.epoch end
  if debt_by ~= 0 then kept[#kept + 1], kept[#kept + 2] = 'debt.' .. budget.depth, debt_by end
end
reply[4] = depths
if budgets.terms then
  -- @cold ledger/windows_charge
  windows_charge(budgets, charged, now)
end
if not eventless then
  -- @cold ledger/event_preconditions
  local corrupt_key = event_preconditions(budgets, event_log, outbox)
  if corrupt_key then return {'corrupt', corrupt_key} end
  redis.call('ZCARD', over_limit_or_in_debt)
end
day_check(days, settings, day)
local count_usage
do
  -- @cold ledger/usage
  count_usage = usage_count(usage, usage_combination(unit, scope_path, key_id, action_kind, action_name), charged, 1, 0)
end

-- Effects. First the indexes: they were not read, and one of another type raises before anything is charged.
redis.call('ZADD', usage_events, now, event_id)
day_register(days, tenant_key, settings, tenant, day, now)
redis.call('HSET', usage_event, 'status', 'APPLIED', 'create_hash', payload_hash, 'tenant', tenant, 'unit', unit,
  'actual', actual, 'charged', charged, 'scope_path', scope_path, 'budgeted', depths,
  'overage_policy', overage_policy, 'created_at_ms', now, unpack(kept))
for i = 1, #budgets do ledger_write_charge(budgets[i], event_id) end
count_usage()
if counts then
  -- @cold ledger/rates_count
  rates_count(counts, 1, stored_bytes:match('^%d+'))
end
if not eventless then
  -- @cold log/events, ledger/thresholds_crossed, ledger/ledger_events, ledger/over_limit_or_in_debt
  local events = events_new(event_log, outbox, tenant, day, now, context, action_kind)
  for _, budget in ipairs(budgets) do
    local scope = budget_scope(scope_path, budget.depth)
    if budget.debt_by ~= 0 or budget.becomes_over then
      over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
    end
    ledger_events(events, budget, unit, scope, thresholds, {'data.overage_policy', overage_policy})
  end
  events_point(events)
end
return reply
