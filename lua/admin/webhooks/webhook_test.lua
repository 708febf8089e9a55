#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Counts a test delivery against the limits of its subscription and of its owner, in UTC minutes.

KEYS[1]  write  webhook_tests  hash  webhooktests:<subscription_id>
KEYS[2]  write  owner_tests    hash  ownertests:<owner>

ARGV[1]  most        int64  Of the subscription, in a minute.
ARGV[2]  owner_most  int64  Of the owner, in a minute.

Replies, the first that applies:
  limited retry_in_ms until_ms most | owner_limited retry_in_ms until_ms most | counted
Writes:
  On counted: the counts.
]]
local webhook_tests, owner_tests = unpack(KEYS)
local most, owner_most = unpack(ARGV)
-- End of the signature.
-- @include base/time
local now = now_ms()
local until_ms = now - now % 60000 + 60000

local function count_of(key)
  local kept = redis.call('HMGET', key, 'until_ms', 'count')
  return kept[1] == tostring(until_ms) and tonumber(kept[2]) or 0
end

local count, owner_count = count_of(webhook_tests), count_of(owner_tests)
if count >= tonumber(most) then return {'limited', until_ms - now, until_ms, most} end
if owner_count >= tonumber(owner_most) then return {'owner_limited', until_ms - now, until_ms, owner_most} end

-- Effects: none can fail.
for key, present in pairs({[webhook_tests] = count, [owner_tests] = owner_count}) do
  redis.call('HSET', key, 'until_ms', until_ms, 'count', present + 1)
  redis.call('PEXPIRE', key, 120000)
end
return {'counted'}
