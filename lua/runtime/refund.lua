#!lua
--[[ Written by `make signatures`, from the declaration in src/store/runtime/refund.rs.
Gives back a part of what a reservation or a usage event charged, on every ledger that has not begun a new period since.

KEYS[1]   read   api_key                hash    apikey:<key_id>
KEYS[2]   write  tenant_key             hash    tenant:<owner>
KEYS[3]   write  event_log              stream  events:<owner>:<day>
KEYS[4]   write  outbox                 stream  outbox
KEYS[5]   write  days                   zset    days
KEYS[6]   write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[7]   write  audit_log              stream  audit:<owner>:<day>
KEYS[8]   write  chain                  hash    chain:<owner>
KEYS[9]   write  unsealed               set     unsealed
KEYS[10]  write  usage                  hash    usage:<owner>:<day>
KEYS[11]  write  record                 hash    rsv:<reservation_id>  (if reservation_id)
KEYS[11]  write  record                 hash    usage_event:<event_id>  (if event_id)
built     write                         hash    budget:<tenant>:<unit>:<scope>
built     write                         hash    usage:<tenant>:<day>:<number>

ARGV[1]     budget_prefix  prefix budget:<owner>:
ARGV[2]     day            yyyymmdd
ARGV[3]     day_start_ms   int64
ARGV[4]     key_hash       text                    Of the API key; empty for the admin key.
ARGV[5]     tenant         text                    Of the API key; empty for the admin key.
ARGV[6]     payload_hash   text
ARGV[7]     key_digest     text                    Of the idempotency key.
ARGV[8]     context        text                    The request cause, lines of name and value.
ARGV[9]     owner          text
ARGV[10]    unit           text
ARGV[11]    amount         int64
ARGV[12]    reason         text
ARGV[13]    metadata       text or ''              JSON.
ARGV[14]    until_ms       int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[15]    charge_name    text
    The member of the event that names the charge: data.reservation_id or data.event_id.
ARGV[16]    charge_id      text
ARGV[17..]  audit          to the end              Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | clock now_ms | not_found | foreign | scope_forbidden filter |
  idempotency_mismatch | replayed unit refunded charged scope_path ledgers | tenant_unreadable | tenant_closed |
  tenant_suspended | not_charged | expired | finalized status | unit_mismatch scope units |
  refund_exceeds charged refunded | too_many count limit present | corrupt key | turn_first now_ms ledgers |
  refunded unit refunded charged scope_path ledgers
Writes:
  On refunded: the record, the usage of the day, the ledgers, their places in the index of those over their limit or in
  debt, events, the audit entry. Otherwise nothing.
]]
local api_key, tenant_key, event_log, outbox, days, over_limit_or_in_debt, audit_log, chain, unsealed, usage, record
  = unpack(KEYS)
local budget_prefix, day, day_start_ms, key_hash, tenant, payload_hash, key_digest, context, owner, unit, amount,
  reason, metadata, until_ms, charge_name, charge_id = unpack(ARGV, 1, 16)
local audit_from = 17
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, log/days, base/int64, ledger/thresholds
-- @include ledger/budgets, ledger/budgets_of_record, ledger/ledger_charge, ledger/reservation, ledger/refunds
-- @include ledger/event_preconditions, ledger/thresholds_crossed, ledger/ledger_events, ledger/over_limit_or_in_debt
-- @include log/events, log/audit, ledger/usage

-- Refusals: read only.
local now = now_ms()
local refusal, why
if tenant ~= '' then refusal, why = access_refusal(api_key, key_hash, tenant, 'budgets:write', now) end
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored_field = 'refund.' .. key_digest
local fields = reservation_read(record, 'unit', 'budgeted', 'charged', 'refunds', 'finalized_at_ms', 'created_at_ms',
  'action_kind', 'expires_at_ms', 'grace_ms', stored_field, 'action_name', 'key_id')
local refused, filter = reservation_refusal(fields, tenant, why)
if refused then return {refused, filter} end
local status, _, scope_path, charged_unit, depths, charged_text, refunds, finalized_at_ms, created_at_ms, action_kind,
  expires_at_ms, grace_ms, stored, action_name, key_id = unpack(fields, 1, 15)
if stored then
  local words = {}
  for line in stored:gmatch('[^\n]+') do words[#words + 1] = line end
  if table.remove(words, 1) ~= payload_hash then return {'idempotency_mismatch'} end
  return {'replayed', charged_unit, words[1], words[2], scope_path, unpack(words, 3)}
end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and tenant == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
local ends_ms = (tonumber(expires_at_ms) or 0) + (tonumber(grace_ms) or 0)
if status == 'ACTIVE' and now <= ends_ms then return {'not_charged'} end
if status == 'ACTIVE' or status == 'EXPIRED' then return {'expired'} end
if status ~= 'COMMITTED' and status ~= 'APPLIED' then return {'finalized', status} end
if unit ~= charged_unit then return {'unit_mismatch', scope_path, charged_unit} end
local charged, by, charged_ms = int64(charged_text), int64(amount), tonumber(finalized_at_ms or created_at_ms)
if not (charged and by and charged_ms and depths) then return {'corrupt', record} end
local count, sum = refunds_sum(refunds or '')
local total = int64_add(sum, by) or INT64_MAX
if int64_lt(charged, total) then return {'refund_exceeds', charged_text, total} end
if count >= REFUNDS_MAX then return {'too_many', 'refunds', REFUNDS_MAX, count + 1} end
local budgets, corrupt = budgets_of_record(budget_prefix, unit, scope_path, depths)
if not budgets then return {'corrupt', corrupt} end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end
local corrupt_key = event_preconditions(budgets, event_log, outbox)
if corrupt_key then return {'corrupt', corrupt_key} end
local thresholds = thresholds_parse(settings[TENANT_THRESHOLDS])
local left, given, ledgers, moved = int64_sub(charged, total), '', {}, {}
for i, budget in ipairs(budgets) do
  local epoch = redis.call('HGET', record, 'epoch.' .. budget.depth) or '0'
  if epoch == (budget.epoch or '0') then
    local debt, spent = int64(budget.debt), int64(budget.spent)
    local debt_back = int64_lt(by, debt) and by or debt
    local rest = int64_sub(by, debt_back)
    local spent_back = int64_lt(rest, spent) and rest or spent
    budget.was_over = budget.over
    if not ledger_move_charge(budget, int64_add(debt_back, spent_back), 0, int64_sub(0, spent_back), int64_sub(0, debt_back)) then
      return {'corrupt', budget.key}
    end
    budget.over = int64_lt(budget.limit, budget.debt)
    given = given .. ' ' .. budget.depth .. ':' .. int64_text(spent_back) .. ':' .. int64_text(debt_back)
    moved[#moved + 1] = budget
    ledgers[i] = budget.depth .. ' ' .. budget_snapshot(budget)
  else
    ledgers[i] = budget.depth
  end
end
if budgets.terms then
  -- @cold ledger/windows_refund
  windows_refund(moved, by, charged_ms, now)
end
day_check(days, settings, day)
redis.call('ZCARD', over_limit_or_in_debt)
local count_usage =
  usage_count(usage, usage_combination(unit, scope_path, key_id, action_kind, action_name), 0, 0, by)
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
local line = int64_text(now) .. ' ' .. amount .. given
redis.call('HSET', record, 'refunded', int64_text(total), 'refunds', refunds and refunds .. '\n' .. line or line,
  stored_field, payload_hash .. '\n' .. int64_text(total) .. '\n' .. int64_text(left) .. '\n' .. table.concat(ledgers, '\n'))
if metadata ~= '' then redis.call('HSET', record, 'refund_metadata', metadata) end
local events = events_new(event_log, outbox, owner, day, now, context, action_kind or '*')
event_append(events, 'reservation.refunded', scope_path, {charge_name, charge_id, 'data.unit', unit, 'data.amount', by,
  'data.refunded', total, 'data.charged', left, 'data.reason', reason})
for _, budget in ipairs(moved) do
  local scope = budget_scope(scope_path, budget.depth)
  ledger_write_charge(budget)
  if budget.debt_by ~= 0 or budget.over ~= budget.was_over then
    redis.call('HSET', budget.key, 'is_over_limit', budget.over and '1' or '0')
    if not budget.over then redis.call('HDEL', budget.key, 'over_limit_by') end
    over_limit_or_in_debt_write(over_limit_or_in_debt, owner .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
  end
  ledger_events(events, budget, unit, scope, thresholds)
  if budget.over ~= budget.was_over then
    event_append(events, budget.over and 'budget.over_limit_entered' or 'budget.over_limit_exited', scope,
      {'data.unit', unit, 'data.debt', budget.debt, 'data.overdraft_limit', budget.limit,
        'data.is_over_limit', budget.over and '1' or '0'})
  end
end
events_point(events)
count_usage()
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, owner, day, now)
return {'refunded', unit, total, left, scope_path, unpack(ledgers)}
