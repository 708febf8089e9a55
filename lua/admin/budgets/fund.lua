#!lua
--[[
fund: moves what a ledger has been allocated, has spent or owes.
KEYS[1] api_key  hash    KEYS[4] event_log  stream    KEYS[7] audit_log    stream  of the day
KEYS[2] tenant   hash    KEYS[5] outbox     stream    KEYS[8] chain        hash
KEYS[3] budget   hash    KEYS[6] days       zset      KEYS[9] unsealed     set
KEYS[10] over_limit_or_in_debt zset   KEYS[11] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[6] unit               ARGV[11] foreign: 1 where the scope is of another
ARGV[2] tenant                            ARGV[7] operation                   tenant than ARGV[2]
ARGV[3] day yyyymmdd                      ARGV[8] amount  int64      ARGV[12] payload_hash
ARGV[4] day_start_ms                      ARGV[9] spent   int64, ''  ARGV[13] context of events, lines of name and value
ARGV[5] scope                             ARGV[10] reason  or ''     ARGV[14..] names and values of the audit entry
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms | idempotency_mismatch
  | replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | foreign | not_found | budget_frozen
  | budget_closed | corrupt what | budget_exceeded remaining | out_of_range
  | funded now_ms, then before and after of allocated, remaining, debt, spent
Writes on funded: the ledger and its base, its place among the over_limit_or_in_debt, events, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days, base/int64
-- @include base/int64_wrapping, ledger/thresholds, ledger/thresholds_crossed, ledger/budgets, log/events
-- @include ledger/funding, ledger/over_limit_or_in_debt, log/audit, access/idempotency
local api_key, tenant_key, budget_key, event_log, outbox, days, audit_log, chain, unsealed, over_limit_or_in_debt,
  idempotency = unpack(KEYS)
local key_hash, tenant, day, day_start_ms, scope, unit, operation, amount_text, spent_text, reason, foreign, payload_hash,
  context = unpack(ARGV, 1, 13)

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:write', scope, now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' and key_hash == '' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if foreign == '1' then return {'foreign'} end
local budget = budget_read(budget_key, 0)
if budget == false then return {'not_found'} end
if not budget then return {'corrupt', budget_key} end
if budget.status == 'FROZEN' then return {'budget_frozen'} end
if budget.status == 'CLOSED' then return {'budget_closed'} end
local ledger_id, base_spent, base_debt = unpack(redis.call('HMGET', budget_key, 'ledger_id', 'base_spent', 'base_debt'))
base_spent, base_debt = int64(base_spent or '0'), int64(base_debt or '0')
if budget.status ~= 'ACTIVE' or not (ledger_id and base_spent and base_debt) then return {'corrupt', budget_key} end
local refused = funding_refusal(budget, operation, int64(amount_text), int64(spent_text ~= '' and spent_text or '0'))
if refused == 'corrupt' then return {'corrupt', budget_key} end
if refused == 'budget_exceeded' then return {'budget_exceeded', int64_text(budget.remaining)} end
if refused then return {refused} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects. First the index: it has not been read, and one of another type raises before anything is funded.
local before = budget.before
if budget.debt ~= before.debt or budget.over ~= before.over then
  over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
end
local reply = {'funded', now, int64_text(before.allocated), int64_text(budget.allocated),
  int64_text(before.remaining), int64_text(budget.remaining), int64_text(before.debt), int64_text(budget.debt),
  int64_text(before.spent), int64_text(budget.spent)}
funding_write(budget, base_spent, base_debt, now)
local request, audit = {'data.ledger_id', ledger_id}, {unpack(ARGV, 14)}
if reason ~= '' then request[#request + 1], request[#request + 2] = 'data.reason', reason end
if operation == 'RESET_SPENT' then
  request[#request + 1], request[#request + 2] = 'data.spent_override_provided', spent_text ~= '' and '1' or '0'
  audit[#audit + 1], audit[#audit + 2] = 'metadata.previous_spent', reply[9]
  audit[#audit + 1], audit[#audit + 2] = 'metadata.new_spent', reply[10]
end
local events = events_new(event_log, outbox, tenant, day, now, context)
funding_events(events, budget, operation, unit, scope, thresholds_parse(settings[TENANT_THRESHOLDS]), request)
events_point(events)
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
