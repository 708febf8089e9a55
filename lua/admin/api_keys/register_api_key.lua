#!lua
--[[
register_api_key: enters an API key into the directory before it is recorded, and chooses the time of its creation, so
that the directory is in the order of these times, whatever the clocks of other nodes say.
KEYS[1] api_keys  zset  of the deployment, by time of creation
ARGV[1] key_id
Reply: registered now_ms
]]
-- @include base/time
local now = now_ms()

-- Effects: none can fail. An id that is taken keeps its place.
redis.call('ZADD', KEYS[1], 'NX', now, ARGV[1])
return {'registered', now}
