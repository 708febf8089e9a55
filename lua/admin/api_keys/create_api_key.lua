#!lua
--[[
create_api_key: records an API key of a tenant. The secret is not among the arguments, only its digest; and, where there
is an idempotency key, the whole sealed, so that a repetition can show it again.
KEYS[1] api_key    hash      KEYS[4] event_log  stream    KEYS[7] audit_log  stream  of the day
KEYS[2] api_keys   zset      KEYS[5] outbox     stream    KEYS[8] chain      hash
KEYS[3] tenant     hash      KEYS[6] days       zset      KEYS[9] unsealed   set
KEYS[10] expiring  zset      KEYS[11] idempotency  hash  where there is a key
ARGV[1] tenant               ARGV[5] key_hash             ARGV[8]  permissions, with a blank on either side
ARGV[2] day yyyymmdd         ARGV[6] expires_at_ms or ''  ARGV[9]  context of events, lines of name and value
ARGV[3] day_start_ms         ARGV[7] name                 ARGV[10] payload_hash    ARGV[11] sealed, or ''
ARGV[4] key_id                                            ARGV[12] registered_ms, when the directory learnt of it
ARGV[13] n, then n names and values of the record, then those of the audit entry
Reply, first that holds: clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed
  | tenant_not_found | tenant_suspended | expires_in_the_past | taken | created created_at_ms expires_at_ms sealed
Writes on created: the tenant's list, what is to expire, the record, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/tenant, base/days, log/events, log/audit, access/idempotency
local api_key, api_keys, tenant_key, event_log, outbox, days, audit_log, chain, unsealed, expiring, idempotency = unpack(KEYS)
local tenant, day, day_start_ms, key_id, key_hash, expires_text, name, permissions, context, payload_hash, sealed,
  registered_ms = unpack(ARGV, 1, 12)
local fields_end = 13 + ARGV[13]
local KEY_LIFE_MS = 90 * DAY_MS
-- The key was created when the directory learnt of it, which is what lists are in the order of; unless the directory's
-- node has another idea of time altogether.
local CLOCKS_DIFFER_MS = 60000

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'tenant_not_found'} end
local created = tonumber(registered_ms)
if math.abs(now - created) > CLOCKS_DIFFER_MS then created = now end
local expires_at_ms = expires_text ~= '' and tonumber(expires_text) or created + KEY_LIFE_MS
if expires_at_ms <= now then return {'expires_in_the_past'} end
if redis.call('EXISTS', api_key) == 1 then return {'taken'} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', expiring)

-- Effects. First the index: it has not been read, and one of another type raises before anything else is written.
redis.call('ZADD', api_keys, created, key_id)
redis.call('ZADD', expiring, expires_at_ms, tenant .. ':' .. key_id)
redis.call('HSET', api_key, 'hash', key_hash, 'tenant', tenant, 'status', 'ACTIVE', 'expires_at_ms', expires_at_ms,
  'permissions', permissions, 'name', name, 'created_at_ms', created)
if fields_end > 13 then redis.call('HSET', api_key, unpack(ARGV, 14, fields_end)) end
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.created', nil, {'data.key_id', key_id, 'data.key_name', name, 'data.new_status', 'ACTIVE',
  'data.permissions', permissions})
events_point(events)
audit_append(now, {unpack(ARGV, fields_end + 1)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'created', created, expires_at_ms, sealed}
idempotency_keep(idempotency, payload_hash, reply)
return reply
