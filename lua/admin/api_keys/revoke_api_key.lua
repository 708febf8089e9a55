#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_keys.rs.
Revokes an API key for good; its next use is refused.

The audit entry gets the name of the API key.

KEYS[1]   write  api_key      hash    apikey:<key_id>
KEYS[2]   write  tenant_key   hash    tenant:<tenant>
KEYS[3]   write  event_log    stream  events:<tenant>:<day>
KEYS[4]   write  outbox       stream  outbox
KEYS[5]   write  days         zset    days
KEYS[6]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[7]   write  chain        hash    chain:<tenant>
KEYS[8]   write  unsealed     set     unsealed
KEYS[9]   write  short_lived  hash    short_lived:<tenant>
KEYS[10]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]    day           yyyymmdd
ARGV[2]    day_start_ms  int64
ARGV[3]    payload_hash  text
ARGV[4]    context       text        The request cause, lines of name and value.
ARGV[5]    tenant        text        The owner of the API key.
ARGV[6]    key_id        text
ARGV[7]    reason        text or ''
ARGV[8..]  audit         to the end  Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed | api_key_not_found |
  key_revoked | revoked record
Writes:
  On revoked: the API key, the event, the audit entry. Otherwise nothing.
]]
local api_key, tenant_key, event_log, outbox, days, audit_log, chain, unsealed, short_lived, idempotency
  = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, key_id, reason = unpack(ARGV, 1, 7)
local audit_from = 8
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, access/idempotency

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local status, owner, expires_at_ms, name =
  unpack(redis.call('HMGET', api_key, 'status', 'tenant', 'expires_at_ms', 'name'))
if not status or owner ~= tenant then return {'api_key_not_found'} end
if status == 'REVOKED' then return {'key_revoked'} end
if expires_at_ms and now >= tonumber(expires_at_ms) then status = 'EXPIRED' end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
redis.call('HSET', api_key, 'status', 'REVOKED', 'revoked_at_ms', now)
if reason ~= '' then redis.call('HSET', api_key, 'revoked_reason', reason) end
local reply = {'revoked', unpack(redis.call('HGETALL', api_key))}
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'api_key.revoked', nil, {'data.key_id', key_id, 'data.key_name', name or '',
  'data.previous_status', status, 'data.new_status', 'REVOKED'})
events_point(events)
local audit = {unpack(ARGV, audit_from)}
if name then audit[#audit + 1], audit[#audit + 2] = 'metadata.name', name end
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
