#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/budgets.rs.
Changes what an operator set on a ledger, and computes anew whether it is over its limit.

The audit entry gets the resource.

KEYS[1]   write  tenant_key             hash    tenant:<tenant>
KEYS[2]   write  budget_key             hash    budget:<tenant>:<unit>:<scope>
KEYS[3]   write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[4]   write  turns                  zset    turns
KEYS[5]   write  event_log              stream  events:<tenant>:<day>
KEYS[6]   write  outbox                 stream  outbox
KEYS[7]   write  days                   zset    days
KEYS[8]   write  audit_log              stream  audit:<tenant>:<day>
KEYS[9]   write  chain                  hash    chain:<tenant>
KEYS[10]  write  unsealed               set     unsealed
KEYS[11]  write  short_lived            hash    short_lived:<tenant>
KEYS[12]  write  idempotency            hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                 day              yyyymmdd
ARGV[2]                 day_start_ms     int64
ARGV[3]                 payload_hash     text
ARGV[4]                 context          text            The request cause, lines of name and value.
ARGV[5]                 tenant           text
ARGV[6]                 scope            text
ARGV[7]                 unit             text
ARGV[8]                 overdraft_limit  int64 or ''
ARGV[9]                 until_ms         int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[10]                bounds           text or ''
    Of a period that is set, start and end of the present one; `none` if it is removed.
ARGV[11]                limits           text or ''
    The limits that replace the present ones; `none` if they are removed.
ARGV[12]                changes          n, then n more
    A member of the request, the field of the record, then = and the value, or '' to remove the field.
ARGV[changes_to + 1..]  audit            to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed | budget_not_found |
  corrupt key | budget_closed | turn_first now_ms ledgers | carry_limit_alone | updated record
Writes:
  On updated: the ledger, its places in the index of those over their limit or in debt and of those that turn, events,
  the audit entry. Otherwise nothing.
]]
local tenant_key, budget_key, over_limit_or_in_debt, turns, event_log, outbox, days, audit_log, chain, unsealed,
  short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, scope, unit, overdraft_limit, until_ms, bounds, limits
  = unpack(ARGV, 1, 11)
local changes_from = 13
local changes_to = 12 + ARGV[12]
local audit_from = changes_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, base/int64, ledger/budgets, ledger/over_limit_or_in_debt, log/events, log/audit
-- @include admin/record_changes, access/idempotency

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local budget = budget_read(budget_key, 0)
if budget == false then return {'budget_not_found'} end
local ledger_id = budget and redis.call('HGET', budget_key, 'ledger_id')
local debt, limit = budget and int64(budget.debt), budget and int64(budget.limit)
if not (budget and ledger_id and debt and limit) then return {'corrupt', budget_key} end
if budget.status == 'CLOSED' then return {'budget_closed'} end
if budget.turns_at_ms then
  -- @cold ledger/turns
  local first = turns_due({budget}, now, until_ms)
  if first then return first end
end
local set, removed, changed = record_changes(budget_key, ARGV, changes_from, changes_to)
if overdraft_limit ~= '' then
  limit = int64(overdraft_limit)
  if overdraft_limit ~= budget.limit then changed[#changed + 1] = 'overdraft_limit' end
  set[#set + 1], set[#set + 2] = 'overdraft_limit', overdraft_limit
end

-- A field as it is after the change.
local function field_after(name)
  for i = 1, #set, 2 do
    if set[i] == name then return set[i + 1] end
  end
  for _, field in ipairs(removed) do
    if field == name then return false end
  end
  return redis.call('HGET', budget_key, name)
end

for i = 1, #set, 2 do
  if set[i] == 'enforcement' then set[#set + 1], set[#set + 2] = 'observes', set[i + 1] == 'OBSERVE' and '1' or '' end
end
if field_after('observes') == '1' then set[#set + 1], set[#set + 2] = 'terms', '1' end
if field_after('carry_limit') and field_after('rollover_policy') ~= 'CARRY_FORWARD' then return {'carry_limit_alone'} end
if bounds ~= '' then
  local first, last = bounds:match('^(%S+) (%S+)$')
  for i = 1, #set, 2 do
    if set[i] == 'period_allocated' and set[i + 1] == 'allocated' then
      -- @cold ledger/increases
      local regular = int64_sub(int64(budget.allocated) or 0, increases_sum(increases_read(budget_key)))
      set[i + 1] = regular and int64_lt(0, regular) and int64_text(regular) or '0'
    end
  end
  for name, value in pairs({period_start = first, period_end = last}) do set[#set + 1], set[#set + 2] = name, value end
end
local turns_at_ms
if bounds ~= '' or limits ~= '' then
  -- @cold ledger/windows_replaced
  if limits ~= '' then
    local text, differs = windows_replaced(budget, limits ~= 'none' and limits or '', now)
    if differs then changed[#changed + 1] = 'limits' end
    set[#set + 1], set[#set + 2] = 'limits', text
  end
  -- Its next turn finds out when it is due.
  local has_turns = field_after('period_every') or windows_turn(field_after('limits') or '') or (field_after('increases') or '') ~= ''
  turns_at_ms = has_turns and '1' or ''
  for name, value in pairs({turns_at_ms = turns_at_ms, terms = '1'}) do set[#set + 1], set[#set + 2] = name, value end
end
local over = int64_lt(limit, debt)
if over ~= budget.over then set[#set + 1], set[#set + 2] = 'is_over_limit', over and '1' or '0' end
if not over then removed[#removed + 1] = 'over_limit_by' end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects. First the index: it has not been read, and one of another type raises before anything is changed.
if over ~= budget.over then over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. unit .. ' ' .. scope, debt, over) end
if turns_at_ms == '1' then redis.call('ZADD', turns, 1, tenant .. ' ' .. unit .. ' ' .. scope) end
if turns_at_ms == '' then redis.call('ZREM', turns, tenant .. ' ' .. unit .. ' ' .. scope) end
redis.call('HSET', budget_key, 'updated_at_ms', now, unpack(set))
if #removed > 0 then redis.call('HDEL', budget_key, unpack(removed)) end
local events = events_new(event_log, outbox, tenant, day, now, context)
if #changed > 0 then
  event_append(events, 'budget.updated', scope, {'data.ledger_id', ledger_id, 'data.unit', unit,
    'data.operation', 'UPDATE'})
end
if over ~= budget.over then
  event_append(events, over and 'budget.over_limit_entered' or 'budget.over_limit_exited', scope,
    {'data.unit', unit, 'data.debt', debt, 'data.overdraft_limit', limit, 'data.is_over_limit', over and '1' or '0'})
end
events_point(events)
audit_append(now, {'resource_type', 'budget', 'resource_id', ledger_id, unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'updated', unpack(redis.call('HGETALL', budget_key))}
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
