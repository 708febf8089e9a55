#!lua flags=allow-oom
--[[
auth_failed: tells of a refused API key, at most once per key and minute, and once for all keys that are nobody's. What
comes beyond that is only counted, exactly, and told by the first call of a later minute: a replica's, or the
dispatcher's, which has a fencing token and no failures to add. The event tells the first failure that it counts.
KEYS[1] auth_failures  hash  of the key     KEYS[4] outbox  stream    KEYS[7] api_key  hash
KEYS[2] auth_failures  zset                 KEYS[5] days    zset      KEYS[8] lease    hash
KEYS[3] event_log      stream  of the day   KEYS[6] tenant  hash
ARGV[1] tenant          ARGV[4] member of KEYS[2]       ARGV[7] context of the first failure, lines of name and value
ARGV[2] day yyyymmdd    ARGV[5] fencing_token or ''     ARGV[8] failure_reason of the first failure
ARGV[3] day_start_ms    ARGV[6] failures to add
Reply: clock now_ms | fenced | early | flushed events
]]
-- @include base/time, access/tenant, base/days, log/events
local counter, index, event_log, outbox, days, tenant_key, api_key, lease = unpack(KEYS)
local tenant, day, day_start_ms, member, token, added, context, reason = unpack(ARGV)
local now = now_ms()
if now < tonumber(day_start_ms) or now >= day_start_ms + DAY_MS then return {'clock', now} end
if token ~= '' and redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local minute = now - now % 60000
local kept = redis.call('HMGET', counter, 'minute_ms', 'count', 'context', 'reason')
local told = tonumber(kept[1] or 0) == minute
if told and token ~= '' then return {'early'} end
local count = tonumber(added) + (kept[2] or 0)
context, reason = kept[3] or context, kept[4] or reason
local name = redis.call('HGET', api_key, 'name')
local _, settings = tenant_refusal(tenant_key)

-- Effects: none can fail.
if told then
  redis.call('HSET', counter, 'count', count, 'context', context, 'reason', reason)
  redis.call('PERSIST', counter)
  redis.call('ZADD', index, minute + 60000, member)
  return {'flushed', 0}
end
redis.call('ZREM', index, member)
if count == 0 then return {'flushed', 0} end
local data = {'data.failure_reason', reason, 'metadata.count', count}
if name then data[5], data[6] = 'data.key_name', name end
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.auth_failed', nil, data)
events_point(events)
-- What is left says that this minute has had its event; after it, nothing needs to be known.
redis.call('DEL', counter)
redis.call('HSET', counter, 'minute_ms', minute)
redis.call('PEXPIRE', counter, 60000)
if not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', 1}
