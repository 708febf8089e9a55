#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/policies.rs.
Records a policy of a tenant. The requests that come after it are under it.

KEYS[1]   read   api_key         hash    apikey:<key_id>
KEYS[2]   write  tenant_key      hash    tenant:<tenant>
KEYS[3]   write  policy          hash    policy:<policy_id>
KEYS[4]   write  policies        zset    policies:<tenant>
KEYS[5]   write  policy_names    hash    policy_names:<tenant>
KEYS[6]   write  policy_changes  list    policy_changes:<tenant>
KEYS[7]   write  event_log       stream  events:<tenant>:<day>
KEYS[8]   write  outbox          stream  outbox
KEYS[9]   write  days            zset    days
KEYS[10]  write  audit_log       stream  audit:<tenant>:<day>
KEYS[11]  write  chain           hash    chain:<tenant>
KEYS[12]  write  unsealed        set     unsealed
KEYS[13]  write  short_lived     hash    short_lived:<tenant>
KEYS[14]  write  idempotency     hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                day            yyyymmdd
ARGV[2]                day_start_ms   int64
ARGV[3]                payload_hash   text
ARGV[4]                context        text            The request cause, lines of name and value.
ARGV[5]                key_hash       text            Of the API key; empty for the admin key.
ARGV[6]                tenant         text
ARGV[7]                policy_id      text
ARGV[8]                name           text
ARGV[9]                scope_pattern  text
ARGV[10]               version        text            Of the tenant's policies from now on; random.
ARGV[11]               limit          int64           Policies that the tenant may have.
ARGV[12]               permission     text or ''      What else the key must be permitted.
ARGV[13]               fields         n, then n more  Names and values of the record.
ARGV[fields_to + 1..]  audit          to the end      Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | owner_not_found | duplicate_policy |
  too_many count limit present | taken | created record
Writes:
  On created: the policy, the tenant's list, names, changes and version, the event, the audit entry. Otherwise nothing.
]]
local api_key, tenant_key, policy, policies, policy_names, policy_changes, event_log, outbox, days, audit_log, chain,
  unsealed, short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, tenant, policy_id, name, scope_pattern, version, limit,
  permission = unpack(ARGV, 1, 12)
local fields_from = 14
local fields_to = 13 + ARGV[13]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days, log/events
-- @include log/audit, ledger/policy_change, access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:write', scope_pattern, now)
if not refusal and permission ~= '' then
  refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, permission, '', now)
end
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'owner_not_found'} end
if redis.call('HEXISTS', policy_names, name) == 1 then return {'duplicate_policy'} end
local present = redis.call('ZCARD', policies)
if present >= tonumber(limit) then return {'too_many', 'policies', limit, present + 1} end
if redis.call('EXISTS', policy) == 1 then return {'taken'} end
redis.call('LLEN', policy_changes)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
redis.call('ZADD', policies, 0, policy_id)
redis.call('HSET', policy, 'policy_id', policy_id, 'tenant', tenant, 'name', name, 'scope_pattern', scope_pattern,
  'status', 'ACTIVE', 'created_at_ms', now, 'updated_at_ms', now, unpack(ARGV, fields_from, fields_to))
redis.call('HSET', policy_names, name, policy_id)
policy_change(tenant_key, policy_changes, version, policy_id)
local reply = {'created', unpack(redis.call('HGETALL', policy))}
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'policy.created', scope_pattern, {'data.policy_id', policy_id, 'data.name', name,
  'data.scope_pattern', scope_pattern, 'data.changed_fields', ''})
events_point(events)
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
