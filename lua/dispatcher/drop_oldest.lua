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
-- @include base/time, log/days, log/audit, log/chain
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local entries = redis.call('XRANGE', oldest_log, '-', '+', 'COUNT', rows + 1)
-- All of the day go, or all but one, whose seal is the hash of the last that goes.
local whole = #entries <= tonumber(rows)
local count = whole and #entries or #entries - 1
local anchor, dropped = chain_anchor(chain)
local gone, requests = {}, 0
for i = 1, #entries do
  if sequence_of(entries[i]) ~= anchor + i then return {'kept'} end
end
for i = 1, count do
  gone[i] = ('%d'):format(anchor + i)
  requests = requests + tonumber(field_of(entries[i], 'metadata.requests') or field_of(entries[i], 'metadata.count') or 1)
end
local hash
if whole then
  local last
  last, hash = chain_last_seal(seals)
  if last ~= anchor + count or oldest_log == audit_log then return {'kept'} end
else
  hash = redis.call('HGET', seals, ('%d'):format(anchor + count + 1))
end
if count == 0 or not hash then return {'kept'} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)
local entry = {unpack(ARGV, audit_from)}
local at = #entry
entry[at + 1], entry[at + 2] = 'metadata.count', count
entry[at + 3], entry[at + 4] = 'metadata.requests', ('%.0f'):format(requests)

-- Effects: none can fail.
redis.call('HSET', chain, 'anchor_sequence', gone[count], 'anchor_hash', hash, 'anchor_dropped', ('%d'):format(dropped + count))
if whole then
  redis.call('UNLINK', oldest_log, seals)
else
  redis.call('XTRIM', oldest_log, 'MINID', entries[count + 1][1])
  redis.call('HDEL', seals, unpack(gone))
end
audit_append(now, entry)
day_register(days, nil, {}, tenant, day, now)
return {'dropped', count}
