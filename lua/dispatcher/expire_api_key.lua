#!lua flags=allow-oom
--[[
expire_api_key: tells, once, that the time of an API key is over. Every reader takes its status from the clock, so the
record stays as it is. A key that was revoked before is not told.
KEYS[1] expiring   zset               KEYS[4] outbox  stream    KEYS[7] lease  hash
KEYS[2] api_key    hash               KEYS[5] days    zset
KEYS[3] event_log  stream  of the day KEYS[6] tenant  hash
ARGV[1] tenant          ARGV[3] day_start_ms    ARGV[5] member of KEYS[1]       ARGV[7] fencing_token
ARGV[2] day yyyymmdd    ARGV[4] key_id          ARGV[6] context of the event, lines of name and value
Reply: clock now_ms | fenced | early | flushed events
Writes on flushed: the member goes, in the same step as the event comes. Else nothing.
]]
-- @include base/time, access/tenant, base/days, log/events, base/hash_fields
local expiring, api_key, event_log, outbox, days, tenant_key, lease = unpack(KEYS)
local tenant, day, day_start_ms, key_id, member, context, token = unpack(ARGV)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local status, expires_at_ms, name = unpack(hash_fields(api_key, 'status', 'expires_at_ms', 'name'))
if status == 'ACTIVE' and expires_at_ms and now < tonumber(expires_at_ms) then return {'early'} end
local _, settings = tenant_refusal(tenant_key)
redis.call('ZCARD', days)
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)

-- Effects: none can fail.
if redis.call('ZREM', expiring, member) == 0 or status ~= 'ACTIVE' then return {'flushed', 0} end
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.expired', nil, {'data.key_id', key_id, 'data.key_name', name or '',
  'data.previous_status', 'ACTIVE', 'data.new_status', 'EXPIRED'})
events_point(events)
if not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', 1}
