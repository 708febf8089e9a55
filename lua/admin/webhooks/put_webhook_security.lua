#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhooks.rs.
Replaces the rules for addresses of webhook receivers.

KEYS[1]  write  webhook_security  hash    webhooksecurity
KEYS[2]  write  audit_log         stream  audit:<sentinel>:<day>
KEYS[3]  write  chain             hash    chain:<sentinel>
KEYS[4]  write  unsealed          set     unsealed
KEYS[5]  write  days              zset    days

ARGV[1]    day                   yyyymmdd
ARGV[2]    day_start_ms          int64
ARGV[3]    sentinel              text        The name of the audit log.
ARGV[4]    blocked_cidr_ranges   text        JSON.
ARGV[5]    allowed_url_patterns  text        JSON.
ARGV[6]    allow_http            1 or 0
ARGV[7..]  audit                 to the end  Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | stored
Writes:
  On stored: the rules, the audit entry.
]]
local webhook_security, audit_log, chain, unsealed, days = unpack(KEYS)
local day, day_start_ms, sentinel, blocked_cidr_ranges, allowed_url_patterns, allow_http = unpack(ARGV, 1, 6)
local audit_from = 7
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/audit
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local audit_append = audit_trail(sentinel, audit_log, chain, unsealed, days)

-- Effects. The first raises if the key is of another type.
redis.call('HSET', webhook_security, 'blocked_cidr_ranges', blocked_cidr_ranges, 'allowed_url_patterns', allowed_url_patterns,
  'allow_http', allow_http, 'updated_at_ms', now)
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, nil, {}, sentinel, day, now)
return {'stored'}
