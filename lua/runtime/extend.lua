#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/extend.rs.
Moves the expiry of an active reservation outward, from its expiry and not from now.

An idempotency entry is kept as long as the reservation, so that no retry extends twice. So there are extensions_max of
them at most, whatever the tenant's limit. Of the metadata only the last extension's is kept.

KEYS[1]  read   api_key      hash  apikey:<key_id>
KEYS[2]  write  tenant_key   hash  tenant:<tenant>
KEYS[3]  write  reservation  hash  rsv:<reservation_id>
KEYS[4]  write  due          zset  due:<tenant>
KEYS[5]  write  due_tenants  zset  due
KEYS[6]  write  rates        hash  rates:<tenant>  (if stored_bytes)
built    read                hash  budget:<tenant>:<unit>:<scope>
built    write               zset  due:<tenant>:other_graces

ARGV[1]   budget_prefix   prefix budget:<tenant>:
ARGV[2]   key_hash        text                     Of the API key; empty for the admin key.
ARGV[3]   tenant          text
ARGV[4]   payload_hash    text
ARGV[5]   key_digest      text                     Of the idempotency key.
ARGV[6]   extend_by_ms    int64
ARGV[7]   extensions_max  int64
ARGV[8]   reservation_id  text
ARGV[9]   until_ms        int64 or ''
    Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.
ARGV[10]  metadata        text or ''               JSON.
ARGV[11]  stored_bytes    text or ''
    Bytes that the request stores of its own, and how many a minute admits, if it counts.

Replies, the first that applies:
  unauthorized why | forbidden permission | not_found | foreign | scope_forbidden filter | idempotency_mismatch |
  replayed now_ms status unit depths scope_path expires_at_ms snapshots | tenant_unreadable | tenant_closed | expired |
  finalized status | max_extensions limit | corrupt key | turn_first now_ms ledgers |
  extended now_ms status unit depths scope_path expires_at_ms snapshots
Writes:
  On extended: the reservation, its due time and expiry; and the tenant's longest life, where this one's is longer than
  usual and than any before, so that lists look back far enough. Otherwise nothing.
]]
local api_key, tenant_key, reservation, due, due_tenants, rates = unpack(KEYS)
local budget_prefix, key_hash, tenant, payload_hash, key_digest, extend_by_ms, extensions_max, reservation_id,
  until_ms, metadata, stored_bytes = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/tenant, base/int64, ledger/budgets
-- @include ledger/budgets_of_record, ledger/reservation, ledger/usual_grace, ledger/due_tenants
-- Lists look back 42 days before what retention keeps (src/ledger/list/walk.rs). One day less: a sweep may be late.
local LIFE_MS_USUAL = 41 * 86400000

-- Refusals: read only.
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:extend', now)
if refusal then return {refusal, why} end
local entry = 'extend.' .. key_digest
local record = reservation_read(reservation, 'unit', 'budgeted', 'expires_at_ms', 'grace_ms', 'max_extensions',
  'extensions', 'extended_ms', 'created_at_ms', entry)
local refused, filter = reservation_refusal(record, tenant, why)
if refused then return {refused, filter} end
local status, _, scope_path, unit, depths, expires_at_ms, grace_ms, max_extensions, extensions, extended_ms,
  created_at_ms, stored = unpack(record)
if stored then
  local stored_hash, stored_expiry = stored:match('^(%S+) (%d+)$')
  if stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
  local reply = {'replayed', now, status, unit, depths, scope_path, stored_expiry}
  for depth in depths:gmatch('%d+') do
    reply[#reply + 1] = redis.call('HGET', reservation, entry .. '.' .. depth)
  end
  return reply
end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
if status == 'EXPIRED' then return {'expired'} end
if status ~= 'ACTIVE' then return {'finalized', status} end
if not (tonumber(expires_at_ms) and tonumber(grace_ms) and tonumber(max_extensions) and depths and unit) then
  return {'corrupt', reservation}
end
-- An extension that arrived in time stays in time, even if ledgers had to turn first.
local received_ms = until_ms ~= '' and math.min(now, tonumber(until_ms)) or now
if received_ms > tonumber(expires_at_ms) then return {'expired'} end
local limit = math.min(tonumber(max_extensions), tonumber(extensions_max))
if tonumber(extensions or 0) >= limit then return {'max_extensions', limit} end
local budgets, corrupt = budgets_of_record(budget_prefix, unit, scope_path, depths)
if not budgets then return {'corrupt', corrupt} end
if budgets.turn then
  -- @cold ledger/turns
  local first = turns_due(budgets, now, until_ms)
  if first then return first end
end
local expiry = expires_at_ms + extend_by_ms
local reply = {'extended', now, status, unit, depths, scope_path, expiry}
local kept = {'expires_at_ms', expiry, 'extensions', (extensions or 0) + 1, 'extended_ms', (extended_ms or 0) + extend_by_ms,
  entry, payload_hash .. ' ' .. expiry}
if metadata ~= '' then kept[#kept + 1], kept[#kept + 2] = 'extended_metadata', metadata end
for i, budget in ipairs(budgets) do
  reply[7 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = entry .. '.' .. budget.depth, reply[7 + i]
end
local life = expiry + grace_ms - (tonumber(created_at_ms) or now)
local longest = life > LIFE_MS_USUAL and settings[TENANT_STATUS]
  and life > (tonumber(redis.call('HGET', tenant_key, 'longest_life_ms') or 0) or 0)
local counts
if stored_bytes ~= '' then
  -- @cold ledger/rates
  counts = rates_read(rates, now, '-', scope_path, 'bytes')
end
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZCARD', due .. ':other_graces') end

-- Effects. First the indexes in KEYS: they were not read, and one of another type raises before anything is extended.
due_tenants_enter(due_tenants, expiry + grace_ms, tenant)
if grace_ms ~= USUAL_GRACE_MS then redis.call('ZADD', due .. ':other_graces', 'XX', expiry, reservation_id) end
redis.call('ZADD', due, expiry + grace_ms, reservation_id)
redis.call('HSET', reservation, unpack(kept))
if counts then
  -- @cold ledger/bytes_count
  bytes_count(tenant_key, counts, 1, stored_bytes)
end
if longest then redis.call('HSET', tenant_key, 'longest_life_ms', life) end
return reply
