#!lua flags=allow-oom
--[[
retire: ends a look of retention at one day of a tenant. Logs whose time is over go; a day of which nothing is left
leaves the registry; else the registry learns when to look again.
KEYS[1] reservations  zset  of the day    KEYS[4] audit_log  stream  of the day    KEYS[7] days   zset
KEYS[2] posts         zset  of the day    KEYS[5] seals      hash    of the day    KEYS[8] lease  hash
KEYS[3] event_log     stream of the day   KEYS[6] chain      hash
ARGV[1] member of days: tenant:yyyymmdd    ARGV[4] drop_events 1|0    ARGV[6..9] when to look again while there still
ARGV[2] day_start_ms                       ARGV[5] drop_audit  0..2              are reservations, posts, events, audit
ARGV[3] fencing_token                                                            entries; ms
Reply: fenced | retired events audit | kept events audit next_ms; events and audit: entries dropped
drop_audit: 1: if it is the oldest of its chain; 2: also if older entries are missing, for they will not come any more. One
that is not sealed stays in any case, and is looked at again in an hour. The chain keeps number and hash of the last entry
that went, from which on it can be checked, and how many went in all.
]]
-- @include base/time
local reservations, posts, event_log, audit_log, seals, chain, days, lease = unpack(KEYS)
local HOUR_MS = 3600000
local member, day_start_ms, token, drop_events, drop_audit = unpack(ARGV, 1, 5)
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local now = now_ms()

-- The number of an entry in its chain.
local function sequence_of(entry)
  for at = 1, #entry[2], 2 do
    if entry[2][at] == 'sequence' then return tonumber(entry[2][at + 1]) end
  end
  return nil
end

-- What the chain will know once this day's log is gone; nil while the log must stay.
local function anchor_after(entries)
  local first = sequence_of(redis.call('XRANGE', audit_log, '-', '+', 'COUNT', 1)[1])
  local last = sequence_of(redis.call('XREVRANGE', audit_log, '+', '-', 'COUNT', 1)[1])
  local sealed, hash = (redis.call('HGET', seals, 'last') or ''):match('^(%d+) (%x+)$')
  if not (first and last and tonumber(sealed) == last) then return nil end
  local stored = redis.call('HMGET', chain, 'anchor_sequence', 'anchor_dropped')
  local anchor = tonumber(stored[1] or '0')
  if first > anchor + 1 and drop_audit == '1' then return nil end
  local anchored = {'anchor_dropped', tonumber(stored[2] or stored[1] or '0') + entries}
  if last > anchor then
    anchored[3], anchored[4], anchored[5], anchored[6] = 'anchor_sequence', last, 'anchor_hash', hash
  end
  return anchored
end

-- Reads.
local events, audit, anchored, audit_again_ms = 0, 0, nil, tonumber(ARGV[9])
if drop_events == '1' and redis.call('EXISTS', event_log) == 1 then events = redis.call('XLEN', event_log) end
if drop_audit ~= '0' and redis.call('EXISTS', audit_log) == 1 then
  audit = redis.call('XLEN', audit_log)
  anchored = audit > 0 and anchor_after(audit)
  if audit > 0 and not anchored then
    audit, drop_audit, audit_again_ms = 0, '0', now + HOUR_MS
  end
end

-- Effects: none can fail.
if anchored then redis.call('HSET', chain, unpack(anchored)) end
if drop_events == '1' then redis.call('UNLINK', event_log) end
if drop_audit ~= '0' then redis.call('UNLINK', audit_log, seals) end
local next_ms = nil
for i, key in ipairs({reservations, posts, event_log, audit_log}) do
  local again = key == audit_log and audit_again_ms or tonumber(ARGV[5 + i])
  if redis.call('EXISTS', key) == 1 and (not next_ms or again < next_ms) then next_ms = again end
end
-- The tenant's record says that the present day is registered, so that row stays until the day is well over.
local over_ms = day_start_ms + 2 * DAY_MS
if not next_ms and now >= over_ms then
  redis.call('ZREM', days, member)
  return {'retired', events, audit}
end
redis.call('ZADD', days, next_ms or over_ms, member)
return {'kept', events, audit, next_ms or over_ms}
