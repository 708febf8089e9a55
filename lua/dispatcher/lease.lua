#!lua flags=allow-oom
--[[
lease: makes one dispatcher the owner of a partition for a while, or renews its lease.
KEYS[1] lease hash
ARGV[1] owner          ARGV[3] action: take | release                     ARGV[5] young_ms: a lease renewed within it
ARGV[2] duration_ms    ARGV[4] dispatchers known to be alive, by blanks           stands, its owner may have just come
Reply: leased token now_ms | held now_ms until_ms | released
A lease lapses with its time or its owner, so it may last long and be renewed rarely. The token rises with each new
owner: whoever writes under the lease presents it, so that a former owner that wakes up late is refused (fencing).
]]
-- @include base/time
local lease = KEYS[1]
local owner, duration_ms, action, alive, young_ms = unpack(ARGV)
local now = now_ms()
local holder, token, until_ms = unpack(redis.call('HMGET', lease, 'owner', 'token', 'until_ms'))
local known = (' ' .. alive .. ' '):find(' ' .. (holder or '') .. ' ', 1, true)
local lapsed = not until_ms or tonumber(until_ms) <= now or (not known and until_ms - duration_ms < now - young_ms)
if action == 'take' and holder ~= owner and not lapsed then return {'held', now, until_ms} end

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
