#!lua
--[[
update_policy: changes a policy of a tenant. What is sent as it stands is no change.
KEYS[1] api_key  hash    KEYS[4] policy_names  hash, name to id    KEYS[7] days       zset
KEYS[2] tenant   hash    KEYS[5] event_log     stream              KEYS[8] audit_log  stream  of the day
KEYS[3] policy   hash    KEYS[6] outbox        stream              KEYS[9] chain      hash
KEYS[10] unsealed  set   KEYS[11] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[5] policy_id
ARGV[2] tenant, the key's or the owner    ARGV[6] name, '' where it is not sent
ARGV[3] day yyyymmdd                      ARGV[7] version of the tenant's policies from now on, random
ARGV[4] day_start_ms                      ARGV[8] payload_hash
ARGV[9] context of events, lines of name and value
ARGV[10] n, then n/3 times a member of the request, the field of the record and '=' and the value, or '' to remove the
field; then names and values of the audit entry, all but the pattern
Reply, first that holds: unauthorized why | forbidden permission | clock now_ms | not_found | foreign | scope_forbidden
  | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | duplicate
  | corrupt what | updated record…
Writes on updated: the policy, the audit entry; where something changed, the tenant's names and version and the event.
Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days, log/events
-- @include log/audit, access/idempotency
local api_key, tenant_key, policy, policy_names, event_log, outbox, days, audit_log, chain, unsealed, idempotency =
  unpack(KEYS)
local key_hash, tenant, day, day_start_ms, policy_id, name_sent, version, payload_hash, context = unpack(ARGV, 1, 9)
local sent_end = 10 + ARGV[10]

-- Refusals: read only.
local now = now_ms()
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:write', '', now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local owner, scope_pattern, name = unpack(redis.call('HMGET', policy, 'tenant', 'scope_pattern', 'name'))
if not owner then return {'not_found'} end
if owner ~= tenant then return {'foreign'} end
if not (scope_pattern and name) then return {'corrupt', policy} end
if not scope_filter_allows(filter, scope_pattern) then return {'scope_forbidden'} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
-- The admin key may change what a suspended tenant owns.
if tenant_refused and not (tenant_refused == 'tenant_suspended' and key_hash == '') then return {tenant_refused} end
local named = name_sent ~= '' and redis.call('HGET', policy_names, name_sent)
if named and named ~= policy_id then return {'duplicate'} end
local set, removed, changed = {}, {}, {}
for i = 11, sent_end, 3 do
  local member, field, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  value = value ~= '' and value:sub(2)
  if redis.call('HGET', policy, field) ~= value then
    if value then set[#set + 1], set[#set + 2] = field, value else removed[#removed + 1] = field end
    if changed[#changed] ~= member then changed[#changed + 1] = member end
  end
end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
redis.call('HSET', policy, 'updated_at_ms', now, unpack(set))
if #removed > 0 then redis.call('HDEL', policy, unpack(removed)) end
if #changed > 0 then
  redis.call('HSET', tenant_key, 'policies', version)
  if name_sent ~= '' and name_sent ~= name then
    redis.call('HDEL', policy_names, name)
    redis.call('HSET', policy_names, name_sent, policy_id)
    name = name_sent
  end
  local events = events_new(event_log, outbox, tenant, day, now, context)
  event_append(events, 'policy.updated', scope_pattern, {'data.policy_id', policy_id, 'data.name', name,
    'data.scope_pattern', scope_pattern, 'data.changed_fields', table.concat(changed, ' ')})
  events_point(events)
end
local reply = {'updated', unpack(redis.call('HGETALL', policy))}
audit_append(now, {'metadata.scope_pattern', scope_pattern, unpack(ARGV, sent_end + 1)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
