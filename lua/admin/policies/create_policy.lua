#!lua
--[[
create_policy: records a policy of a tenant. The requests that come after it are under it.
KEYS[1] api_key  hash    KEYS[4] policies      zset, lexical       KEYS[7] outbox     stream
KEYS[2] tenant   hash    KEYS[5] policy_names  hash, name to id    KEYS[8] days       zset
KEYS[3] policy   hash    KEYS[6] event_log     stream              KEYS[9] audit_log  stream  of the day
KEYS[10] chain   hash    KEYS[11] unsealed     set    KEYS[12] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[6] name
ARGV[2] tenant                            ARGV[7] scope_pattern
ARGV[3] day yyyymmdd                      ARGV[8] version of the tenant's policies from now on, random
ARGV[4] day_start_ms                      ARGV[9] payload_hash
ARGV[5] policy_id                         ARGV[10] context of events, lines of name and value
ARGV[11] n, then n names and values of the record, then those of the audit entry
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms | idempotency_mismatch
  | replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | tenant_not_found | duplicate | taken
  | created record…
Writes on created: the policy, the tenant's list, names and version, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days, log/events
-- @include log/audit, access/idempotency
local api_key, tenant_key, policy, policies, policy_names, event_log, outbox, days, audit_log, chain, unsealed,
  idempotency = unpack(KEYS)
local key_hash, tenant, day, day_start_ms, policy_id, name, scope_pattern, version, payload_hash, context =
  unpack(ARGV, 1, 10)
local fields_end = 11 + ARGV[11]

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:write', scope_pattern, now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'tenant_not_found'} end
if redis.call('HEXISTS', policy_names, name) == 1 then return {'duplicate'} end
if redis.call('EXISTS', policy) == 1 then return {'taken'} end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects. First the index: it has not been read, and one of another type raises before anything else is written.
redis.call('ZADD', policies, 0, policy_id)
redis.call('HSET', policy, 'policy_id', policy_id, 'tenant', tenant, 'name', name, 'scope_pattern', scope_pattern,
  'status', 'ACTIVE', 'created_at_ms', now, 'updated_at_ms', now, unpack(ARGV, 12, fields_end))
redis.call('HSET', policy_names, name, policy_id)
redis.call('HSET', tenant_key, 'policies', version)
local reply = {'created', unpack(redis.call('HGETALL', policy))}
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'policy.created', scope_pattern, {'data.policy_id', policy_id, 'data.name', name,
  'data.scope_pattern', scope_pattern, 'data.changed_fields', ''})
events_point(events)
audit_append(now, {unpack(ARGV, fields_end + 1)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
