#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/closing.rs.
Takes a step of a tenant's close: releases up to a number of its active reservations. Their holds return to the ledgers
and add to what the event of each ledger says that it got back.

none: there is no close to resume. sweep_first: reservations are past their grace period; those expire, they are not
released. A record that is corrupt, or whose ledger is, leaves the index for the quarantine.

KEYS[1]  read   tenant_key    hash  tenant:<tenant>
KEYS[2]  read   lease         hash  lease
KEYS[3]  write  closing_key   hash  closing:<tenant>
KEYS[4]  write  due           zset  due:<tenant>
KEYS[5]  write  other_graces  zset  due:<tenant>:other_graces
KEYS[6]  write  due_tenants   zset  due
KEYS[7]  write  quarantine    zset  quarantine
built    write                hash  rsv:<reservation_id>
built    write                hash  budget:<tenant>:<unit>:<scope>

ARGV[1]  reservation_prefix  prefix rsv:
ARGV[2]  budget_prefix       prefix budget:<tenant>:
ARGV[3]  tenant              text
ARGV[4]  fencing_token       int64 or ''              Of the caller's lease, '' for a request.
ARGV[5]  rows                int64                    How many at most.

Replies, the first that applies:
  fenced | none | sweep_first now_ms | at phase
Writes:
  On at: the reservations, their due times and expiries, the ledgers, the intent, the quarantine.
]]
local tenant_key, lease, closing_key, due, other_graces, due_tenants, quarantine = unpack(KEYS)
local reservation_prefix, budget_prefix, tenant, fencing_token, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/int64, ledger/budgets, base/hash_fields, ledger/ledger_hold
-- @include ledger/holds, ledger/usual_grace, admin/closing, base/slot
local now = now_ms()
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local closing, ends = closing_read(closing_key, 'reservations')
if not closing then return ends end
if redis.call('HGET', tenant_key, 'status') ~= 'CLOSED' then return {'none'} end

-- Reads: every record and every ledger, and the total that returns to each ledger.
local page = redis.call('ZRANGE', due, 0, rows - 1, 'WITHSCORES')
if page[2] and tonumber(page[2]) < now then return {'sweep_first', now} end
local ids, released, later, corrupt, holds = {}, {}, {}, {}, holds_new(budget_prefix)
for i = 1, #page, 2 do
  local id = page[i]
  ids[#ids + 1] = id
  local record = hash_fields(reservation_prefix .. id, 'status', 'tenant', 'unit', 'estimate', 'scope_path',
    'budgeted', 'expires_at_ms', 'grace_ms')
  local status, estimate = record[1], int64(record[4])
  local ended = not record.err and (not status or status == 'COMMITTED' or status == 'RELEASED' or status == 'EXPIRED')
  if not ended then
    local expires_at_ms, grace_ms = holds_time(record[7]), holds_time(record[8])
    local due_ms = expires_at_ms and grace_ms and expires_at_ms + grace_ms
    local sound = not record.err and status == 'ACTIVE' and record[2] == tenant and estimate and not int64_lt(estimate, 0)
      and record[3] and record[5] and record[6] and due_ms
    if sound and due_ms < now then
      later[#later + 1] = {due_ms, id, record[8] ~= USUAL_GRACE_MS and expires_at_ms}
    elseif sound and holds_return(holds, record[3], record[5], record[6], estimate) then
      released[#released + 1] = id
    else
      corrupt[#corrupt + 1] = id
    end
  end
end
local moved, totals = holds_moved(holds), {}
for _, budget in ipairs(moved) do
  local name = 'sum.' .. budget.unit .. ' ' .. budget.scope
  local sum = int64_add(int64(redis.call('HGET', closing_key, name)) or 0, budget.returned)
  totals[#totals + 1], totals[#totals + 2] = name, int64_text(sum or INT64_MAX)
end
-- Keys that are written without a read: one of the wrong type raises here.
for _, index in ipairs({other_graces, due_tenants, quarantine}) do redis.call('ZCARD', index) end
slot_check(due)

-- Effects: none can fail.
for _, budget in ipairs(moved) do ledger_write_hold(budget) end
if #totals > 0 then redis.call('HSET', closing_key, unpack(totals)) end
for _, id in ipairs(released) do
  redis.call('HSET', reservation_prefix .. id, 'status', 'RELEASED', 'finalized_at_ms', now,
    'release_reason', 'tenant_closed')
end
if #ids > 0 then
  redis.call('ZREM', other_graces, unpack(ids))
  redis.call('ZREM', due, unpack(ids))
end
for _, row in ipairs(later) do
  if row[3] then redis.call('ZADD', other_graces, row[3], row[2]) end
  redis.call('ZADD', due, row[1], row[2])
end
for _, id in ipairs(corrupt) do redis.call('ZADD', quarantine, now, id) end
local next_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due then
  redis.call('ZADD', due_tenants, next_due, tenant)
  return {'at', 'reservations'}
end
redis.call('ZREM', due_tenants, tenant)
redis.call('HSET', closing_key, 'phase', 'budgets', 'offset', 0)
return {'at', 'budgets'}
