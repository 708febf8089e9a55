#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/emit.rs.
Emits the rollup of a tenant's denials of a past minute that were only counted, where no later denial did.

KEYS[1]  read   lease           hash    lease
KEYS[2]  write  denials         hash    denials:<tenant>
KEYS[3]  write  denial_minutes  zset    denials
KEYS[4]  write  event_log       stream  events:<tenant>:<day>
KEYS[5]  write  outbox          stream  outbox
KEYS[6]  write  days            zset    days
KEYS[7]  write  tenant_key      hash    tenant:<tenant>

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text
ARGV[4]  context        text      The request cause, lines of name and value.
ARGV[5]  fencing_token  int64

Replies, the first that applies:
  clock now_ms | fenced | early | flushed count
Writes:
  On flushed: the event; the count goes.
]]
local lease, denials, denial_minutes, event_log, outbox, days, tenant_key = unpack(KEYS)
local day, day_start_ms, tenant, context, fencing_token = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/denials
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local due_ms = redis.call('ZSCORE', denial_minutes, tenant)
if due_ms and tonumber(due_ms) > now then return {'early'} end
local _, settings = tenant_refusal(tenant_key)
denials_check(denials, denial_minutes, event_log, outbox)
day_check(days, settings, day)
local events = events_new(event_log, outbox, tenant, day, now, context)

-- Effects: none can fail.
denials_flush(events, denials, denial_minutes)
redis.call('ZREM', denial_minutes, tenant)
events_point(events)
if events.count > 0 and not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', events.count}
