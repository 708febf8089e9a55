#!lua flags=allow-oom
--[[
lease: makes one dispatcher the owner of a partition for a while, or renews its lease.
KEYS[1] lease hash
ARGV[1] owner    ARGV[2] duration_ms    ARGV[3] action: take | release
Reply: leased token now_ms | held now_ms until_ms | released
The token rises with each new owner: whoever writes under the lease presents it, so that a former owner that wakes up
late is refused (a fencing token).
]]
-- @include time
local lease, owner, duration_ms, action = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local now = now_ms()
local holder, token, until_ms = unpack(redis.call('HMGET', lease, 'owner', 'token', 'until_ms'))
local lapsed = not until_ms or tonumber(until_ms) <= now
if action == 'take' and holder ~= owner and not lapsed then return {'held', now, until_ms} end

-- Effects: none can fail.
if action == 'release' then
  if holder == owner then redis.call('HSET', lease, 'until_ms', 0) end
  return {'released'}
end
if holder ~= owner or not token or lapsed then token = (tonumber(token) or 0) + 1 end
redis.call('HSET', lease, 'owner', owner, 'token', token, 'until_ms', now + duration_ms)
return {'leased', token, now}
