#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Counts a test delivery of a subscription against its limit, in UTC minutes.

KEYS[1]  write  webhook_tests  hash  webhooktests:<subscription_id>

ARGV[1]  most  int64  In a minute.

Replies, the first that applies:
  limited retry_in_ms until_ms | counted
Writes:
  On counted: the count.
]]
local webhook_tests = KEYS[1]
local most = ARGV[1]
-- End of the signature.
-- @include base/time
local now = now_ms()
local until_ms = now - now % 60000 + 60000
local kept = redis.call('HMGET', webhook_tests, 'until_ms', 'count')
local count = kept[1] == tostring(until_ms) and tonumber(kept[2]) or 0
if count >= tonumber(most) then return {'limited', until_ms - now, until_ms} end

-- Effects: none can fail.
redis.call('HSET', webhook_tests, 'until_ms', until_ms, 'count', count + 1)
redis.call('PEXPIRE', webhook_tests, 120000)
return {'counted'}
