#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/budgets.rs.
Moves what a ledger has been allocated, has spent or owes.

KEYS[1]   read   api_key                hash    apikey:<key_id>
KEYS[2]   write  tenant_key             hash    tenant:<tenant>
KEYS[3]   write  budget_key             hash    budget:<tenant>:<unit>:<scope>
KEYS[4]   write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[5]   write  idempotency_due        zset    idemdue
KEYS[6]   write  event_log              stream  events:<tenant>:<day>
KEYS[7]   write  outbox                 stream  outbox
KEYS[8]   write  days                   zset    days
KEYS[9]   write  audit_log              stream  audit:<tenant>:<day>
KEYS[10]  write  chain                  hash    chain:<tenant>
KEYS[11]  write  unsealed               set     unsealed
KEYS[12]  write  short_lived            hash    short_lived:<tenant>
KEYS[13]  write  idempotency            hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]     day           yyyymmdd
ARGV[2]     day_start_ms  int64
ARGV[3]     payload_hash  text
ARGV[4]     context       text         The request cause, lines of name and value.
ARGV[5]     key_hash      text         Of the API key; empty for the admin key.
ARGV[6]     tenant        text
ARGV[7]     scope         text
ARGV[8]     unit          text
ARGV[9]     operation     text
ARGV[10]    amount        int64
ARGV[11]    spent         int64 or ''  The value that RESET_SPENT sets.
ARGV[12]    reason        text or ''
ARGV[13]    foreign       1 or 0       Whether the scope is another tenant's.
ARGV[14]    until_ms      int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[15..]  audit         to the end   Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | foreign_budget | budget_not_found |
  budget_frozen | budget_closed | corrupt key | turn_first now_ms ledgers | budget_exceeded snapshot | out_of_range |
  funded at allocated remaining debt spent
Writes:
  On funded: the ledger and its base, its place in the index of those over their limit or in debt, events, the audit
  entry. Otherwise nothing.
]]
local api_key, tenant_key, budget_key, over_limit_or_in_debt, idempotency_due, event_log, outbox, days, audit_log,
  chain, unsealed, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, tenant, scope, unit, operation, amount, spent, reason,
  foreign, until_ms = unpack(ARGV, 1, 14)
local audit_from = 15
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days, base/int64
-- @include base/int64_wrapping, ledger/thresholds, ledger/thresholds_crossed, ledger/budgets, log/events
-- @include ledger/funding, ledger/funding_target, ledger/over_limit_or_in_debt, log/audit, access/idempotency

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
local target_refused, budget = funding_target(budget_key, foreign, now, until_ms)
if target_refused then return target_refused end
local refused = funding_refusal(budget, operation, int64(amount), int64(spent ~= '' and spent or '0'))
if refused == 'corrupt' then return {'corrupt', budget_key} end
if refused == 'budget_exceeded' then return {'budget_exceeded', budget_snapshot(budget)} end
if refused then return {refused} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', idempotency_due)

-- Effects. First the index: it has not been read, and one of another type raises before anything is funded.
local before = budget.before
if budget.debt ~= before.debt or budget.over ~= before.over then
  over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. unit .. ' ' .. scope, budget.debt, budget.over)
end
local reply = {'funded', now, int64_text(before.allocated), int64_text(budget.allocated),
  int64_text(before.remaining), int64_text(budget.remaining), int64_text(before.debt), int64_text(budget.debt),
  int64_text(before.spent), int64_text(budget.spent)}
funding_write(budget, budget.base_spent, budget.base_debt, funding_fields(budget, operation, now))
local request, audit = {'data.ledger_id', budget.ledger_id}, {unpack(ARGV, audit_from)}
if reason ~= '' then request[#request + 1], request[#request + 2] = 'data.reason', reason end
if operation == 'RESET_SPENT' then
  request[#request + 1], request[#request + 2] = 'data.spent_override_provided', spent ~= '' and '1' or '0'
  audit[#audit + 1], audit[#audit + 2] = 'metadata.previous_spent', reply[9]
  audit[#audit + 1], audit[#audit + 2] = 'metadata.new_spent', reply[10]
end
local events = events_new(event_log, outbox, tenant, day, now, context)
funding_events(events, budget, operation, unit, scope, thresholds_parse(settings[TENANT_THRESHOLDS]), request)
events_point(events)
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived, idempotency_due)
return reply
