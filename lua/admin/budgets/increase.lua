#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/increases.rs.
Raises what is allocated to a ledger for a time, or ends that early.

The audit entry gets the resource.

KEYS[1]   read   api_key                hash    apikey:<key_id>
KEYS[2]   write  tenant_key             hash    tenant:<tenant>
KEYS[3]   write  budget_key             hash    budget:<tenant>:<unit>:<scope>
KEYS[4]   write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[5]   write  turns                  zset    turns
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
ARGV[9]     foreign       1 or 0       Whether the scope is another tenant's.
ARGV[10]    until_ms      int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[11]    increase_id   text
ARGV[12]    amount        int64 or ''  Of one that begins; none ends that of the id.
ARGV[13]    end_ms        int64 or ''  When one that begins ends, in milliseconds, and what the ledger keeps of it.
ARGV[14]    kept          text or ''   Names and values that the record keeps.
ARGV[15]    reason        text or ''
ARGV[16]    limit         int64        How many a ledger may have.
ARGV[17..]  audit         to the end   Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | foreign_budget | budget_not_found |
  budget_frozen | budget_closed | corrupt key | turn_first now_ms ledgers | until_out_of_range |
  too_many count limit present | increase_not_found | out_of_range | increased increase_id record
Writes:
  On increased: the ledger, its places in the index of those over their limit or in debt and of those that turn, events,
  the audit entry. Otherwise nothing.
]]
local api_key, tenant_key, budget_key, over_limit_or_in_debt, turns, event_log, outbox, days, audit_log, chain,
  unsealed, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, tenant, scope, unit, foreign, until_ms, increase_id, amount,
  end_ms, kept, reason, limit = unpack(ARGV, 1, 16)
local audit_from = 17
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days, base/int64
-- @include base/int64_wrapping, ledger/thresholds, ledger/thresholds_crossed, ledger/budgets, log/events
-- @include ledger/funding, ledger/funding_target, ledger/increases, ledger/over_limit_or_in_debt, log/audit, access/idempotency
-- Ten years.
local LONGEST_MS = 3653 * 86400000

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
if not funding_figures(budget) then return {'corrupt', budget_key} end

local increases, increase, allocated = increases_read(budget_key), nil, int64(budget.allocated)
if amount ~= '' then
  local ends = tonumber(end_ms)
  if ends <= now or ends > now + LONGEST_MS then return {'until_out_of_range'} end
  if #increases >= tonumber(limit) then return {'too_many', 'increases', limit, #increases + 1} end
  increase = {id = increase_id, amount = int64(amount), end_ms = end_ms, line = kept}
  increases[#increases + 1] = increase
  allocated = int64_add(allocated, increase.amount)
else
  for at = #increases, 1, -1 do
    if increases[at].id == increase_id then increase = table.remove(increases, at) end
  end
  if not increase then return {'increase_not_found'} end
  allocated = int64_sub(allocated, increase.amount)
  if int64_lt(allocated, 0) then allocated = 0 end
end
if not (allocated and funding_move(budget, allocated, int64(budget.spent), int64(budget.debt))) then return {'out_of_range'} end
local turns_at_ms = budget.turns_at_ms or ''
if amount ~= '' and (turns_at_ms == '' or tonumber(end_ms) < tonumber(turns_at_ms)) then turns_at_ms = end_ms end
redis.call('ZCARD', over_limit_or_in_debt)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects. First the indexes: they have not been read, and one of another type raises before anything is changed.
local entry = tenant .. ' ' .. unit .. ' ' .. scope
if turns_at_ms ~= '' then redis.call('ZADD', turns, turns_at_ms, entry) end
if budget.over ~= budget.before.over then over_limit_or_in_debt_write(over_limit_or_in_debt, entry, budget.debt, budget.over) end
funding_write(budget, budget.base_spent, budget.base_debt, 'updated_at_ms', now, 'terms', '1',
  'turns_at_ms', turns_at_ms, 'increases', increases_text(increases))
local events, facts = events_new(event_log, outbox, tenant, day, now, context), increase_facts(increase, budget.ledger_id, unit)
if reason ~= '' then facts[#facts + 1], facts[#facts + 2] = 'data.reason', reason end
event_append(events, amount ~= '' and 'budget.increase_started' or 'budget.increase_ended', scope, facts)
funding_consequences(events, budget, unit, scope, thresholds_parse(settings[TENANT_THRESHOLDS]))
events_point(events)
audit_append(now, {'resource_type', 'budget', 'resource_id', budget.ledger_id, unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'increased', increase_id, unpack(redis.call('HGETALL', budget_key))}
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
