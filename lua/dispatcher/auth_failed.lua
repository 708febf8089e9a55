#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/auth_failed.rs.
Emits the event of a refused API key, at most once per key and minute, and once for all keys that are nobody's. Further
failures are counted, exactly, and emitted by the first call of a later minute: a replica's, or the dispatcher's, which
has a fencing token and no failures to add. The event describes the first failure that it counts.

KEYS[1]  read   api_key            hash    apikey:<key_id>
KEYS[2]  read   lease              hash    lease
KEYS[3]  write  auth_failures      hash    authfail:<member>
KEYS[4]  write  auth_failures_due  zset    authfail
KEYS[5]  write  event_log          stream  events:<tenant>:<day>
KEYS[6]  write  outbox             stream  outbox
KEYS[7]  write  days               zset    days
KEYS[8]  write  tenant_key         hash    tenant:<tenant>

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text
ARGV[4]  member         text         Of auth_failures_due.
ARGV[5]  fencing_token  int64 or ''  '' for a replica.
ARGV[6]  added          int64        Failures to be counted.
ARGV[7]  context        text         The request cause of the first failure, lines of name and value.
ARGV[8]  reason         text         failure_reason of the first failure.

Replies, the first that applies:
  clock now_ms | fenced | early | flushed events
Writes:
  On flushed: the event, or the count.
]]
local api_key, lease, auth_failures, auth_failures_due, event_log, outbox, days, tenant_key = unpack(KEYS)
local day, day_start_ms, tenant, member, fencing_token, added, context, reason = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local minute = now - now % 60000
local kept = redis.call('HMGET', auth_failures, 'minute_ms', 'count', 'context', 'reason')
local emitted = tonumber(kept[1] or 0) == minute
if emitted and fencing_token ~= '' then return {'early'} end
local count = tonumber(added) + (kept[2] or 0)
context, reason = kept[3] or context, kept[4] or reason
local name = redis.call('HGET', api_key, 'name')
local _, settings = tenant_refusal(tenant_key)
redis.call('ZCARD', auth_failures_due)
day_check(days, settings, day)
for _, log in ipairs({event_log, outbox}) do redis.call('XLEN', log) end

-- Effects: none can fail.
if emitted then
  redis.call('HSET', auth_failures, 'count', count, 'context', context, 'reason', reason)
  redis.call('PERSIST', auth_failures)
  redis.call('ZADD', auth_failures_due, minute + 60000, member)
  return {'flushed', 0}
end
redis.call('ZREM', auth_failures_due, member)
if count == 0 then return {'flushed', 0} end
local data = {'data.failure_reason', reason, 'metadata.count', count}
if name then data[5], data[6] = 'data.key_name', name end
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.auth_failed', nil, data)
events_point(events)
-- The rest marks that this minute has had its event. It is not needed afterwards.
redis.call('HSET', auth_failures, 'minute_ms', minute)
redis.call('HDEL', auth_failures, 'count', 'context', 'reason')
redis.call('PEXPIRE', auth_failures, 60000)
if not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', 1}
