#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/lease.rs.
Makes one dispatcher the owner of a partition for a while, or renews its lease.

A lease lapses with its time or its owner, so it may last long and be renewed rarely. The token rises with each new
owner: a script that writes under the lease compares it, so that a former owner that wakes up late is refused (fencing).

KEYS[1]  write  lease  hash  lease

ARGV[1]  owner        text
ARGV[2]  duration_ms  int64
ARGV[3]  action       text   take or release.
ARGV[4]  alive        text   Dispatchers, blanks between.
ARGV[5]  young_ms     int64  A lease that was renewed within it stays: its owner may have just started.

Replies, the first that applies:
  held now_ms until_ms | leased token now_ms | released
Writes:
  On leased and released: the lease.
]]
local lease = KEYS[1]
local owner, duration_ms, action, alive, young_ms = unpack(ARGV)
-- End of the signature.
-- @include base/time
local now = now_ms()
local holder, token, until_ms = unpack(redis.call('HMGET', lease, 'owner', 'token', 'until_ms'))
local known = (' ' .. alive .. ' '):find(' ' .. (holder or '') .. ' ', 1, true)
local lapsed = not until_ms or tonumber(until_ms) <= now or (not known and until_ms - duration_ms < now - young_ms)
-- A lease further ahead than its own duration dates from before the clock was set back. Its owner keeps it by renewing it.
local ahead = until_ms and until_ms - duration_ms > now
if action == 'take' and holder ~= owner and not lapsed and not ahead then return {'held', now, until_ms} end

-- Effects: none can fail.
if action == 'release' then
  if holder == owner then redis.call('HSET', lease, 'until_ms', 0) end
  return {'released'}
end
if holder == owner and token and not lapsed then
  redis.call('HSET', lease, 'until_ms', now + duration_ms)
else
  token = (tonumber(token) or 0) + 1
  redis.call('HSET', lease, 'owner', owner, 'token', token, 'until_ms', now + duration_ms)
end
return {'leased', token, now}
