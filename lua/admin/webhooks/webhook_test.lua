#!lua
--[[
webhook_test: counts a test of a subscription against its limit, in UTC minutes.
KEYS[1] tests  hash  count of the present minute    ARGV[1] most in a minute
Reply: limited retry_in_ms until_ms | counted
]]
-- @include base/time
local now = now_ms()
local until_ms = now - now % 60000 + 60000
local kept = redis.call('HMGET', KEYS[1], 'until_ms', 'count')
local count = kept[1] == tostring(until_ms) and tonumber(kept[2]) or 0
if count >= tonumber(ARGV[1]) then return {'limited', until_ms - now, until_ms} end

-- Effects: none can fail.
redis.call('HSET', KEYS[1], 'until_ms', until_ms, 'count', count + 1)
redis.call('PEXPIRE', KEYS[1], 120000)
return {'counted'}
