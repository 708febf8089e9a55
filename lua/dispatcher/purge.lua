#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/retention.rs.
Removes up to a number of a tenant's ended records of one day whose retention has passed. What a record had charged
moves into the base of its ledgers in the same step, so that the ledgers can still be recomputed.

Records of which evidence is to be signed yet are kept, also where nobody can sign it, or the clock was set back
meanwhile.

Only rows created before ended_before_ms are examined, from behind the last one that earlier calls kept. If fewer than
asked for were examined, none is left. first_ended_ms: the earliest end among the ended rows kept. next_created_ms: of
the first row that was not examined.

KEYS[1]  read   lease       hash    lease
KEYS[2]  read   unsigned    stream  unsigned
KEYS[3]  read   unsignable  stream  unsignable
KEYS[4]  write  purged      hash    purged
KEYS[5]  write  index       zset    rsvs:<tenant>:<of_day>  (if reservations)
KEYS[5]  write  index       zset    usage_events:<tenant>:<of_day>  (if usage_events)
built    write              hash    rsv:<reservation_id>
built    write              hash    usage_event:<event_id>
built    write              hash    budget:<tenant>:<unit>:<scope>

ARGV[1]  budget_prefix     prefix budget:<tenant>:
ARGV[2]  tenant            text
ARGV[3]  record_prefix     text                     Of reservations or of usage events.
ARGV[4]  ended_before_ms   int64
ARGV[5]  rows              int64                    How many at most.
ARGV[6]  fencing_token     int64
ARGV[7]  after_created_ms  int64 or ''              Of the last row of the index that earlier calls kept.
ARGV[8]  after_id          text or ''

Replies, the first that applies:
  fenced | purged examined removed first_ended_ms next_created_ms last_created_ms last_id
Writes:
  On purged: the records and their rows go; the bases of the ledgers, and the time of the latest charge or refund that
  went.
]]
local lease, unsigned, unsignable, purged, index = unpack(KEYS)
local budget_prefix, tenant, record_prefix, ended_before_ms, rows, fencing_token, after_created_ms, after_id
  = unpack(ARGV)
-- End of the signature.
-- @include base/int64, base/int64_wrapping, ledger/budgets, base/hash_fields, evidence/quarantined, evidence/place
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end

-- Reads: every record and every ledger. A record of an unsigned entry ended no earlier than the entry was queued, except
-- for the time that a script takes. If the clock was set back, it ended earlier: such records store the place of the entry.
local before_ms = tonumber(ended_before_ms)
local oldest = redis.call('XRANGE', unsigned, '-', '+', 'COUNT', 1)[1]
local oldest_ms, oldest_sequence = math.huge, 0
if oldest then oldest_ms, oldest_sequence = entry_place(oldest[1]) end
local quarantined_ms = quarantined_since(unsignable, math.huge)
before_ms = math.min(before_ms, oldest_ms - EVIDENCE_AHEAD_MS, quarantined_ms - EVIDENCE_AHEAD_MS)

-- Whether an entry at this place may still be in the queue, or in quarantine.
local function is_queued(place)
  if not place then return false end
  local ms, sequence = entry_place(place)
  if not ms then return false end
  return ms > oldest_ms or (ms == oldest_ms and sequence >= oldest_sequence) or ms >= quarantined_ms
end
local from = 0
if after_id ~= '' then
  local rank = redis.call('ZRANK', index, after_id)
  -- Once that row is gone, from the first one of its time.
  from = rank and rank + 1 or redis.call('ZCOUNT', index, '-inf', '(' .. after_created_ms)
end
-- One row more, which is not examined.
local found = redis.call('ZRANGE', index, from, from + rows, 'WITHSCORES')
local removed, bases, first_ended, last_created, last_id = {}, {}, nil, nil, nil
local latest_ms = tonumber(redis.call('HGET', purged, tenant) or 0) or 0
local known_ms = latest_ms

-- The present base of a ledger, false when it is gone, nil when it is corrupt.
local function ledger_base(key)
  if bases[key] == nil then
    local stored = hash_fields(key, 'status', 'base_spent', 'base_debt')
    local spent, debt = int64(stored[2] or '0'), int64(stored[3] or '0')
    if stored.err or (stored[1] and not (spent and debt)) then return nil end
    bases[key] = stored[1] and {spent = spent, debt = debt} or false
  end
  return bases[key]
end

-- Moves what a record charged into the bases; false when record or ledger is corrupt.
local function moved_to_bases(id, record)
  local charged, shares = int64(record[5]), {}
  if not (charged and record[2] and record[3] and record[4]) then return false end
  for depth in record[4]:gmatch('%d+') do
    local base = ledger_base(budget_prefix .. record[2] .. ':' .. budget_scope(record[3], tonumber(depth)))
    local debt = int64(redis.call('HGET', record_prefix .. id, 'debt.' .. depth) or '0')
    if base == nil or not debt then return false end
    shares[#shares + 1] = {base, int64_sub(charged, debt), debt, depth}
  end
  local refunds, given = redis.call('HGET', record_prefix .. id, 'refunds'), {}
  if refunds then
    -- @cold ledger/refunds
    given = refunds_given(refunds)
    for at_ms in refunds:gmatch('(%d+) %d+[^\n]*') do latest_ms = math.max(latest_ms, tonumber(at_ms)) end
  end
  for _, share in ipairs(shares) do
    local base, spent, debt, back = share[1], share[2], share[3], given[share[4]] or {spent = 0, debt = 0}
    if base then
      base.spent = int64_wrapping_add(base.spent, int64_sub(spent, back.spent))
      base.debt = int64_wrapping_add(base.debt, int64_sub(debt, back.debt))
    end
  end
  return true
end

local examined = 0
while examined < tonumber(rows) and found[2 * examined + 1]
  and tonumber(found[2 * examined + 2]) < before_ms do
  local id, created = found[2 * examined + 1], found[2 * examined + 2]
  examined = examined + 1
  local record = hash_fields(record_prefix .. id, 'status', 'unit', 'scope_path', 'budgeted', 'charged',
    'finalized_at_ms', 'expired_at_ms', 'created_at_ms', 'queued')
  local status = record[1]
  local ended = tonumber(record[6] or record[7] or (status == 'APPLIED' and record[8]) or '')
  local purge = not record.err and not status
  if ended and ended < before_ms and not is_queued(record[9]) then
    local is_charge = status == 'COMMITTED' or status == 'APPLIED'
    purge = not is_charge or moved_to_bases(id, record)
    if is_charge and purge then latest_ms = math.max(latest_ms, ended) end
  elseif ended and (not first_ended or ended < first_ended) then
    first_ended = ended
  end
  if purge then removed[#removed + 1] = id else last_created, last_id = created, id end
end

-- Effects: none can fail.
for key, base in pairs(bases) do
  if base then redis.call('HSET', key, 'base_spent', base.spent, 'base_debt', base.debt) end
end
if latest_ms > known_ms then redis.call('HSET', purged, tenant, latest_ms) end
for _, id in ipairs(removed) do redis.call('UNLINK', record_prefix .. id) end
if #removed > 0 then redis.call('ZREM', index, unpack(removed)) end
return {'purged', examined, #removed, first_ended or '', found[2 * examined + 2] or '', last_created or '', last_id or ''}
