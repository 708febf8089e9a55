#!lua
--[[
put_webhook_security: replaces the rules for addresses of receivers.
KEYS[1] webhook_security  hash    KEYS[2] audit_log  stream  of the day    KEYS[3] chain  hash    KEYS[4] unsealed  set
KEYS[5] days  zset
ARGV[1] day yyyymmdd     ARGV[3] sentinel, whose log it is    ARGV[5] allowed_url_patterns, JSON
ARGV[2] day_start_ms     ARGV[4] blocked_cidr_ranges, JSON    ARGV[6] allow_http 1|0    ARGV[7..] names and values of
                                                                                                 the audit entry
Reply: clock now_ms | stored
]]
-- @include base/time, access/tenant, base/days, log/audit
local webhook_security, audit_log, chain, unsealed, days = unpack(KEYS)
local day, day_start_ms, sentinel, ranges, patterns, allow_http = unpack(ARGV, 1, 6)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local audit_append = audit_trail(sentinel, audit_log, chain, unsealed, days)

-- Effects. The first raises if the key is of another type.
redis.call('HSET', webhook_security, 'blocked_cidr_ranges', ranges, 'allowed_url_patterns', patterns,
  'allow_http', allow_http, 'updated_at_ms', now)
audit_append(now, {unpack(ARGV, 7)})
day_register(days, nil, {}, sentinel, day, now)
return {'stored'}
