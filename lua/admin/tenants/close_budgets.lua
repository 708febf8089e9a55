#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/closing.rs.
Takes a step of a tenant's close: closes up to a number of its ledgers. What a ledger still holds belongs to records in
quarantine, and returns as well.

none: there is no close to resume. A ledger that is closed already is passed over; one that is missing or corrupt too,
and the close reports it and is tried again.

KEYS[1]   read   lease        hash    lease
KEYS[2]   read   list         zset    budgets:<tenant>
KEYS[3]   write  tenant_key   hash    tenant:<tenant>
KEYS[4]   write  closing_key  hash    closing:<tenant>
KEYS[5]   write  event_log    stream  events:<tenant>:<day>
KEYS[6]   write  outbox       stream  outbox
KEYS[7]   write  days         zset    days
KEYS[8]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[9]   write  chain        hash    chain:<tenant>
KEYS[10]  write  unsealed     set     unsealed
KEYS[11]  write  counts       hash    counts
built     write               hash    budget:<tenant>:<unit>:<scope>

ARGV[1]  budget_prefix  prefix budget:<tenant>:
ARGV[2]  day            yyyymmdd
ARGV[3]  day_start_ms   int64
ARGV[4]  tenant         text
ARGV[5]  fencing_token  int64 or ''              Of the caller's lease, '' for a request.
ARGV[6]  rows           int64                    How many at most.

Replies, the first that applies:
  clock now_ms | fenced | none | at phase
Writes:
  On at: the intent; what it ends, each with its events and audit entry.
]]
local lease, list, tenant_key, closing_key, event_log, outbox, days, audit_log, chain, unsealed, counts = unpack(KEYS)
local budget_prefix, day, day_start_ms, tenant, fencing_token, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, base/int64, ledger/budgets, log/events, log/audit, ledger/ledger_hold
-- @include ledger/holds, admin/closing, admin/closing_child
-- @include admin/counts
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local closing, ends = closing_read(closing_key, 'budgets')
if not closing then return ends end
local refused, settings = tenant_refusal(tenant_key)
if refused ~= 'tenant_closed' then return {'none'} end

-- Reads: every ledger, and the amount returned to it.
local members = redis.call('ZRANGE', list, closing.offset, closing.offset + rows - 1)
local open, totals = {}, {}
local released_sum = int64(redis.call('HGET', closing_key, 'reservations_released')) or 0
for _, member in ipairs(members) do
  local scope, unit = member:match('^(%S+) %d+ (%S+)$')
  local budget = scope and holds_ledger(budget_prefix .. unit .. ':' .. scope, '1')
  local held = budget and budget.reserved
  if not budget or not ledger_move_hold(budget, held, int64_sub(0, held)) then
    closing_failed(closing, 'budget:' .. (scope and scope .. ':' .. unit or '?'))
  elseif budget.status ~= 'CLOSED' then
    local name = 'sum.' .. unit .. ' ' .. scope
    local sum = int64(redis.call('HGET', closing_key, name)) or 0
    budget.scope, budget.unit, budget.held = scope, unit, held
    budget.released = int64_add(sum, held) or INT64_MAX
    budget.ledger_id = redis.call('HGET', budget.key, 'ledger_id') or ''
    released_sum = int64_add(released_sum, budget.released) or INT64_MAX
    open[#open + 1], totals[#totals + 1] = budget, name
  end
end
if #open > 0 then counts_check(counts) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, closing.context)
for _, budget in ipairs(open) do
  counts_move(counts, 'budget ' .. budget.unit, budget.status, 'CLOSED')
  if budget.held ~= 0 then ledger_write_hold(budget) end
  redis.call('HSET', budget.key, 'status', 'CLOSED', 'closed_at_ms', now, 'updated_at_ms', now)
  local facts = {'ledger_id', budget.ledger_id, 'unit', budget.unit, 'prior_status', budget.status}
  local closed = {unpack(facts)}
  closed[7], closed[8] = 'new_status', 'CLOSED'
  if budget.released ~= 0 then
    facts[7], facts[8] = 'released_amount', budget.released
    closed[9], closed[10] = 'released_reserved_amount', budget.released
    event_append(events, 'reservation.released_via_tenant_cascade', budget.scope, closing_data(facts))
  end
  event_append(events, 'budget.closed_via_tenant_cascade', budget.scope, closing_data(closed))
  closed[#closed + 1], closed[#closed + 2] = 'scope', budget.scope
  closing_audit(closing, audit_append, now, 'budget.closed_via_tenant_cascade', 'budget', budget.ledger_id, closed)
end
if #open > 0 then
  redis.call('HDEL', closing_key, unpack(totals))
  redis.call('HSET', closing_key, 'reservations_released', int64_text(released_sum))
  events_point(events)
  day_register(days, tenant_key, settings, tenant, day, now)
end
return closing_advance(closing, 'budgets', #members, rows, 'webhooks', 'budgets_closed', #open)
