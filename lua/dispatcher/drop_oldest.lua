#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/drop_oldest.rs.
Removes the oldest entries of an audit chain, and appends the entry that says how many went and how many requests they
stood for. The chain then begins behind them: it keeps number and hash of the last that went, and how many went in all.

kept: the entries at the beginning of the log are not the oldest of the chain, the one behind them is not sealed, or
there is none; then they stay.

KEYS[1]  read   lease       hash    lease
KEYS[2]  write  oldest_log  stream  audit:<tenant>:<oldest_day>
KEYS[3]  write  seals       hash    seals:<tenant>:<oldest_day>
KEYS[4]  write  audit_log   stream  audit:<tenant>:<day>
KEYS[5]  write  chain       hash    chain:<tenant>
KEYS[6]  write  unsealed    set     unsealed
KEYS[7]  write  days        zset    days

ARGV[1]    day            yyyymmdd
ARGV[2]    day_start_ms   int64
ARGV[3]    tenant         text
ARGV[4]    fencing_token  int64
ARGV[5]    rows           int64       How many entries go at most.
ARGV[6..]  audit          to the end  Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | fenced | kept | dropped count
Writes:
  On dropped: the entries and their seals go; the chain, the entry, the registry of days.
]]
local lease, oldest_log, seals, audit_log, chain, unsealed, days = unpack(KEYS)
local day, day_start_ms, tenant, fencing_token, rows = unpack(ARGV, 1, 5)
local audit_from = 6
-- End of the signature.
-- @include base/time, log/days, log/audit, log/stored
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local entries = redis.call('XRANGE', oldest_log, '-', '+', 'COUNT', rows + 1)
local stored = redis.call('HMGET', chain, 'anchor_sequence', 'anchor_dropped')
local anchor, gone, requests = tonumber(stored[1] or '0'), {}, {}
for i, entry in ipairs(entries) do
  if sequence_of(entry) ~= anchor + i then return {'kept'} end
  gone[i] = ('%d'):format(anchor + i)
  requests[i] = tonumber(field_of(entry, 'metadata.requests') or field_of(entry, 'metadata.count') or 1)
end
-- The hash of the last that goes: the seal of the one behind it, or what is kept with the seals of a day that goes whole.
local whole = #entries <= tonumber(rows)
local hash
if whole then
  local last
  last, hash = (redis.call('HGET', seals, 'last') or ''):match('^(%d+) (%x+)$')
  if last ~= gone[#gone] or oldest_log == audit_log then return {'kept'} end
else
  hash = redis.call('HGET', seals, table.remove(gone))
end
if not hash then return {'kept'} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)
local entry = {unpack(ARGV, audit_from)}
local sum = 0
for i = 1, #gone do sum = sum + requests[i] end
local at = #entry
entry[at + 1], entry[at + 2], entry[at + 3], entry[at + 4] = 'metadata.count', #gone, 'metadata.requests', ('%.0f'):format(sum)

-- Effects: none can fail.
redis.call('HSET', chain, 'anchor_sequence', gone[#gone], 'anchor_hash', hash,
  'anchor_dropped', ('%d'):format(tonumber(stored[2] or stored[1] or '0') + #gone))
if whole then
  redis.call('UNLINK', oldest_log, seals)
else
  redis.call('XTRIM', oldest_log, 'MINID', entries[#entries][1])
  redis.call('HDEL', seals, unpack(gone))
end
audit_append(now, entry)
day_register(days, nil, {}, tenant, day, now)
return {'dropped', #gone}
