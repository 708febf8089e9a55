#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_keys.rs.
Records an API key of a tenant. The secret is not among the arguments, only its digest; and, where there is an
idempotency key, the sealed text of the key, for a replay.

KEYS[1]   write  tenant_key   hash    tenant:<tenant>
KEYS[2]   write  api_key      hash    apikey:<key_id>
KEYS[3]   write  api_keys     zset    apikeys:<tenant>
KEYS[4]   write  expiring     zset    expiring
KEYS[5]   write  event_log    stream  events:<tenant>:<day>
KEYS[6]   write  outbox       stream  outbox
KEYS[7]   write  days         zset    days
KEYS[8]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[9]   write  chain        hash    chain:<tenant>
KEYS[10]  write  unsealed     set     unsealed
KEYS[11]  write  short_lived  hash    short_lived:<tenant>
KEYS[12]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                day                      yyyymmdd
ARGV[2]                day_start_ms             int64
ARGV[3]                payload_hash             text
ARGV[4]                context                  text            The request cause, lines of name and value.
ARGV[5]                tenant                   text
ARGV[6]                key_id                   text
ARGV[7]                key_hash                 text            Of the new API key.
ARGV[8]                requested_expires_at_ms  int64 or ''
ARGV[9]                name                     text
ARGV[10]               permissions              text            A blank on either side of each.
ARGV[11]               sealed                   text            '' where there is no idempotency key.
ARGV[12]               registered_ms            int64           When the directory learned of the key.
ARGV[13]               limit                    int64
    API keys that the tenant may have, revoked and expired ones included.
ARGV[14]               fields                   n, then n more  Names and values of the record.
ARGV[fields_to + 1..]  audit                    to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed created created_at expires_at sealed | tenant_unreadable |
  tenant_closed | owner_not_found | tenant_suspended | expires_in_the_past | too_many count limit present | taken |
  created created_at expires_at sealed
Writes:
  On created: the tenant's list, the expiry, the API key, the event, the audit entry. Otherwise nothing.
]]
local tenant_key, api_key, api_keys, expiring, event_log, outbox, days, audit_log, chain, unsealed, short_lived,
  idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, key_id, key_hash, requested_expires_at_ms, name, permissions,
  sealed, registered_ms, limit = unpack(ARGV, 1, 13)
local fields_from = 15
local fields_to = 14 + ARGV[14]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, access/idempotency
local KEY_LIFE_MS = 90 * DAY_MS
-- The time of creation is that of the registration in the directory, by which lists are ordered, unless the directory's
-- node has an entirely different clock.
local CLOCKS_DIFFER_MS = 60000

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'owner_not_found'} end
local created = tonumber(registered_ms)
if math.abs(now - created) > CLOCKS_DIFFER_MS then created = now end
local expires_at_ms = requested_expires_at_ms ~= '' and tonumber(requested_expires_at_ms) or created + KEY_LIFE_MS
if expires_at_ms <= now then return {'expires_in_the_past'} end
local present = redis.call('ZCARD', api_keys)
if present >= tonumber(limit) then return {'too_many', 'api_keys', limit, present + 1} end
if redis.call('EXISTS', api_key) == 1 then return {'taken'} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', expiring)

-- Effects: none can fail.
redis.call('ZADD', api_keys, created, key_id)
redis.call('ZADD', expiring, expires_at_ms, tenant .. ':' .. key_id)
redis.call('HSET', api_key, 'hash', key_hash, 'tenant', tenant, 'status', 'ACTIVE', 'expires_at_ms', expires_at_ms,
  'permissions', permissions, 'name', name, 'created_at_ms', created)
if fields_to >= fields_from then redis.call('HSET', api_key, unpack(ARGV, fields_from, fields_to)) end
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.created', nil, {'data.key_id', key_id, 'data.key_name', name, 'data.new_status', 'ACTIVE',
  'data.permissions', permissions})
events_point(events)
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'created', created, expires_at_ms, sealed}
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
