#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk_rows.rs.
Funds some ledgers of one tenant for a bulk action, each as fund does, and keeps the outcome of each. A row that has an
outcome is left alone.

KEYS[1]    write  tenant_key             hash    tenant:<tenant>
KEYS[2]    write  event_log              stream  events:<tenant>:<day>
KEYS[3]    write  outbox                 stream  outbox
KEYS[4]    write  days                   zset    days
KEYS[5]    write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[6]    write  bulk_rows              hash    bulkrow:<claim_id>
KEYS[7]    write  idempotency_due        zset    idemdue
KEYS[8..]  write  budgets                hash    budget:<tenant>:<unit>:<scope>

ARGV[1]     day           yyyymmdd
ARGV[2]     day_start_ms  int64
ARGV[3]     tenant        text
ARGV[4]     unit          text or ''   Of the amount, if there is one.
ARGV[5]     operation     text
ARGV[6]     amount        int64
ARGV[7]     spent         int64 or ''  The value that RESET_SPENT sets.
ARGV[8]     reason        text or ''
ARGV[9]     context       text         The request cause, lines of name and value.
ARGV[10]    until_ms      int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[11..]  ledgers       to the end   Of each ledger its id, unit and scope.

Replies, the first that applies:
  clock now_ms | turn_first now_ms ledgers | done outcomes
Writes:
  On done: each ledger that is funded, its base and its place in the index of those over their limit or in debt, events,
  the outcomes.
]]
local tenant_key, event_log, outbox, days, over_limit_or_in_debt, bulk_rows, idempotency_due = unpack(KEYS, 1, 7)
local day, day_start_ms, tenant, unit, operation, amount, spent, reason, context, until_ms = unpack(ARGV, 1, 10)
local budgets_from = 8
local ledgers_from = 11
-- End of the signature.
-- @include base/time, access/tenant, log/days, base/int64, base/int64_wrapping, ledger/thresholds
-- @include ledger/thresholds_crossed, base/hash_fields, ledger/budgets, log/events
-- @include ledger/funding, ledger/over_limit_or_in_debt, admin/bulk, base/slot
local CORRUPT = 'failed INTERNAL_ERROR The record of the budget cannot be read'

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local tenant_refused, settings = tenant_refusal(tenant_key)
local by, restart = int64(amount), int64(spent ~= '' and spent or '0')

local turning = {}

-- The outcome of one ledger; nil and the ledger, moved in memory, where it is to be funded.
local function judge(key, ledger_id, ledger_unit)
  if tenant_refused == 'tenant_closed' then return 'failed TENANT_CLOSED The tenant is closed' end
  if tenant_refused == 'tenant_unreadable' then
    return 'failed INTERNAL_ERROR The record of the tenant cannot be read'
  end
  if unit ~= '' and ledger_unit ~= unit then
    return 'failed INVALID_TRANSITION The budget counts ' .. ledger_unit .. ', not ' .. unit
  end
  local stored = hash_fields(key, 'ledger_id', 'base_spent', 'base_debt')
  if stored.err then return CORRUPT end
  local budget = budget_read(key, 0)
  if budget == nil then return CORRUPT end
  if operation == 'REPAY_DEBT' and budget and int64(budget.debt) == 0 then
    return 'skipped ALREADY_IN_TARGET_STATE'
  end
  if not budget or stored[1] ~= ledger_id then return 'failed NOT_FOUND The budget is gone' end
  if budget.status == 'FROZEN' then return 'failed INVALID_TRANSITION The budget is frozen' end
  if budget.status == 'CLOSED' then return 'failed INVALID_TRANSITION The budget is closed' end
  budget.base_spent, budget.base_debt = int64(stored[2] or '0'), int64(stored[3] or '0')
  if budget.status ~= 'ACTIVE' or not (budget.base_spent and budget.base_debt) then return CORRUPT end
  if budget.turns_at_ms then turning[#turning + 1] = budget end
  local refused = funding_refusal(budget, operation, by, restart)
  if refused == 'budget_exceeded' then
    return 'failed BUDGET_EXCEEDED Only ' .. int64_text(budget.remaining) .. ' ' .. ledger_unit .. ' remain'
  end
  if refused == 'out_of_range' then
    return 'failed INVALID_TRANSITION A figure of the budget would leave the range of 64 bits'
  end
  if refused then return CORRUPT end
  return nil, budget
end

local reply, outcomes, funded = {'done'}, {}, {}
for i = budgets_from, #KEYS do
  local at = ledgers_from + (i - budgets_from) * 3
  local ledger_id, ledger_unit, scope = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local outcome = redis.call('HGET', bulk_rows, ledger_id)
  if not outcome then
    local budget
    outcome, budget = judge(KEYS[i], ledger_id, ledger_unit)
    if budget then
      outcome, budget.ledger_id, budget.unit, budget.scope = 'succeeded', ledger_id, ledger_unit, scope
      funded[#funded + 1] = budget
    end
    outcomes[#outcomes + 1], outcomes[#outcomes + 2] = ledger_id, outcome
  end
  reply[#reply + 1] = outcome
end
if #turning > 0 then
  -- @cold ledger/turns
  local first = turns_due(turning, now, until_ms)
  if first then return first end
end
-- Keys that are written without a read: one of the wrong type raises here.
redis.call('ZCARD', days)
redis.call('ZCARD', idempotency_due)
redis.call('ZCARD', over_limit_or_in_debt)
slot_check(over_limit_or_in_debt)
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, context)
local thresholds = thresholds_parse(settings[TENANT_THRESHOLDS])
for _, budget in ipairs(funded) do
  local before = budget.before
  if budget.debt ~= before.debt or budget.over ~= before.over then
    over_limit_or_in_debt_write(over_limit_or_in_debt, tenant .. ' ' .. budget.unit .. ' ' .. budget.scope, budget.debt, budget.over)
  end
  funding_write(budget, budget.base_spent, budget.base_debt, funding_fields(budget, operation, now))
  local request = {'data.ledger_id', budget.ledger_id}
  if reason ~= '' then request[#request + 1], request[#request + 2] = 'data.reason', reason end
  if operation == 'RESET_SPENT' then
    request[#request + 1], request[#request + 2] = 'data.spent_override_provided', spent ~= '' and '1' or '0'
  end
  funding_events(events, budget, operation, budget.unit, budget.scope, thresholds, request)
end
events_point(events)
if #funded > 0 then day_register(days, tenant_key, settings, tenant, day, now) end
bulk_rows_keep(bulk_rows, outcomes, idempotency_due, now)
return reply
