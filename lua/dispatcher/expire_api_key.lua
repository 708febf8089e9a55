#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/due_events.rs.
Emits, once, that the time of an API key is over. Every reader takes its status from the clock, so the record stays as
it is. A key that was revoked before emits nothing.

KEYS[1]  read   api_key     hash    apikey:<key_id>
KEYS[2]  read   lease       hash    lease
KEYS[3]  write  expiring    zset    expiring
KEYS[4]  write  event_log   stream  events:<tenant>:<day>
KEYS[5]  write  outbox      stream  outbox
KEYS[6]  write  days        zset    days
KEYS[7]  write  tenant_key  hash    tenant:<tenant>

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text
ARGV[4]  key_id         text
ARGV[5]  member         text      Of expiring.
ARGV[6]  context        text      The request cause, lines of name and value.
ARGV[7]  fencing_token  int64

Replies, the first that applies:
  clock now_ms | fenced | early | flushed events
Writes:
  On flushed: the entry of expiring goes, in the same step as the event comes. Otherwise nothing.
]]
local api_key, lease, expiring, event_log, outbox, days, tenant_key = unpack(KEYS)
local day, day_start_ms, tenant, key_id, member, context, fencing_token = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, base/hash_fields
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
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
