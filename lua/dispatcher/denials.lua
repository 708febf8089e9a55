#!lua flags=allow-oom
--[[
denials: appends the event that sums up the uncounted denials of a tenant's past minute, where no later denial did.
KEYS[1] denials         hash  the tenant's    KEYS[4] outbox  stream    KEYS[7] lease  hash
KEYS[2] denial_minutes  zset                  KEYS[5] days    zset
KEYS[3] event_log       stream  of the day    KEYS[6] tenant  hash
ARGV[1] tenant          ARGV[3] day_start_ms    ARGV[5] fencing_token
ARGV[2] day yyyymmdd    ARGV[4] context of events, lines of name and value
Reply: clock now_ms | fenced | early | flushed count
]]
-- @include base/time, access/tenant, base/days, log/events, log/denials
local denials, denial_minutes, event_log, outbox, days, tenant_key, lease = unpack(KEYS)
local tenant, day, day_start_ms, context, token = unpack(ARGV)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local due_ms = redis.call('ZSCORE', denial_minutes, tenant)
if due_ms and tonumber(due_ms) > now then return {'early'} end
local _, settings = tenant_refusal(tenant_key)
local events = events_new(event_log, outbox, tenant, day, now, context)

-- Effects: none can fail.
denials_flush(events, denials, denial_minutes)
redis.call('ZREM', denial_minutes, tenant)
events_point(events)
if events.count > 0 and not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', events.count}
