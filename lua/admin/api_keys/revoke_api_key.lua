#!lua flags=allow-oom
--[[
revoke_api_key: ends an API key for good; its next use is refused.
KEYS[1] api_key    hash      KEYS[4] outbox     stream             KEYS[7] chain        hash
KEYS[2] tenant     hash      KEYS[5] days       zset               KEYS[8] unsealed     set
KEYS[3] event_log  stream    KEYS[6] audit_log  stream  of the day KEYS[9] idempotency  hash  where there is a key
ARGV[1] tenant, the key's owner    ARGV[4] key_id        ARGV[7] context of events, lines of name and value
ARGV[2] day yyyymmdd               ARGV[5] reason or ''  ARGV[8..] names and values of the audit entry, all but the
ARGV[3] day_start_ms               ARGV[6] payload_hash            name of the key
Reply, first that holds: clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed
  | not_found | key_revoked | revoked record…
Writes on revoked: the record, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/tenant, base/days, log/events, log/audit, access/idempotency
local api_key, tenant_key, event_log, outbox, days, audit_log, chain, unsealed, idempotency = unpack(KEYS)
local tenant, day, day_start_ms, key_id, reason, payload_hash, context = unpack(ARGV, 1, 7)

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local status, owner, expires_at_ms, name =
  unpack(redis.call('HMGET', api_key, 'status', 'tenant', 'expires_at_ms', 'name'))
if not status or owner ~= tenant then return {'not_found'} end
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
local audit = {unpack(ARGV, 8)}
if name then audit[#audit + 1], audit[#audit + 2] = 'metadata.name', name end
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
