#!lua flags=allow-oom
--[[
members: tells that a dispatcher is alive, and who else is. A dispatcher that stays silent drops out by itself.
KEYS[1] dispatchers zset, by the time until which each counts as alive
ARGV[1] dispatcher    ARGV[2] duration_ms    ARGV[3] action: stay | leave
Reply: members now_ms dispatcher…, all that are alive
Writes the list.
]]
-- @include base/time
local dispatchers = KEYS[1]
local dispatcher, duration_ms, action = unpack(ARGV)
local now = now_ms()

-- Effects: none can fail.
redis.call('ZREMRANGEBYSCORE', dispatchers, '-inf', now)
if action == 'leave' then
  redis.call('ZREM', dispatchers, dispatcher)
else
  redis.call('ZADD', dispatchers, now + duration_ms, dispatcher)
end
return {'members', now, unpack(redis.call('ZRANGE', dispatchers, 0, -1))}
