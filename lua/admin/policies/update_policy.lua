#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/policies.rs.
Changes a policy of a tenant. A field that is sent as it is stored is no change.

The audit entry gets the pattern.

KEYS[1]   read   api_key         hash    apikey:<key_id>
KEYS[2]   write  tenant_key      hash    tenant:<tenant>
KEYS[3]   write  policy          hash    policy:<policy_id>
KEYS[4]   write  policy_names    hash    policy_names:<tenant>
KEYS[5]   write  policy_changes  list    policy_changes:<tenant>
KEYS[6]   write  event_log       stream  events:<tenant>:<day>
KEYS[7]   write  outbox          stream  outbox
KEYS[8]   write  days            zset    days
KEYS[9]   write  audit_log       stream  audit:<tenant>:<day>
KEYS[10]  write  chain           hash    chain:<tenant>
KEYS[11]  write  unsealed        set     unsealed
KEYS[12]  write  short_lived     hash    short_lived:<tenant>
KEYS[13]  write  idempotency     hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                 day           yyyymmdd
ARGV[2]                 day_start_ms  int64
ARGV[3]                 payload_hash  text
ARGV[4]                 context       text            The request cause, lines of name and value.
ARGV[5]                 key_hash      text            Of the API key; empty for the admin key.
ARGV[6]                 tenant        text            Of the API key, or the owner.
ARGV[7]                 policy_id     text
ARGV[8]                 sent_name     text or ''
ARGV[9]                 permission    text or ''      What else the key must be permitted.
ARGV[10]                version       text            Of the tenant's policies from now on; random.
ARGV[11]                changes       n, then n more
    A member of the request, the field of the record, then = and the value, or '' to remove the field.
ARGV[changes_to + 1..]  audit         to the end      Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | clock now_ms | policy_not_found | foreign_policy | corrupt key |
  scope_forbidden filter | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed |
  tenant_suspended | duplicate_policy | templates_below | updated record
Writes:
  On updated: the policy, the audit entry; where something changed, the tenant's names, changes and version and the
  event. Otherwise nothing.
]]
local api_key, tenant_key, policy, policy_names, policy_changes, event_log, outbox, days, audit_log, chain, unsealed,
  short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, tenant, policy_id, sent_name, permission, version
  = unpack(ARGV, 1, 10)
local changes_from = 12
local changes_to = 11 + ARGV[11]
local audit_from = changes_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days, log/events
-- @include log/audit, ledger/policy_change, admin/record_changes, access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:write', '', now)
if not refusal and permission ~= '' then
  refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, permission, '', now)
end
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local owner, scope_pattern, name = unpack(redis.call('HMGET', policy, 'tenant', 'scope_pattern', 'name'))
if not owner then return {'policy_not_found'} end
if owner ~= tenant then return {'foreign_policy'} end
if not (scope_pattern and name) then return {'corrupt', policy} end
if not scope_filter_allows(filter, scope_pattern) then return {'scope_forbidden', filter} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
-- The admin key may change what a suspended tenant owns.
if tenant_refused and not (tenant_refused == 'tenant_suspended' and key_hash == '') then return {tenant_refused} end
local named = sent_name ~= '' and redis.call('HGET', policy_names, sent_name)
if named and named ~= policy_id then return {'duplicate_policy'} end
local set, removed, changed = record_changes(policy, ARGV, changes_from, changes_to)
for i = 1, #set, 2 do
  if set[i] == 'budget_templates' and scope_pattern:sub(-2) == '/*' then return {'templates_below'} end
end
redis.call('LLEN', policy_changes)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
redis.call('HSET', policy, 'updated_at_ms', now, unpack(set))
if #removed > 0 then redis.call('HDEL', policy, unpack(removed)) end
if #changed > 0 then
  policy_change(tenant_key, policy_changes, version, policy_id)
  if sent_name ~= '' and sent_name ~= name then
    redis.call('HSET', policy_names, sent_name, policy_id)
    redis.call('HDEL', policy_names, name)
    name = sent_name
  end
  local events = events_new(event_log, outbox, tenant, day, now, context)
  event_append(events, 'policy.updated', scope_pattern, {'data.policy_id', policy_id, 'data.name', name,
    'data.scope_pattern', scope_pattern, 'data.changed_fields', table.concat(changed, ' ')})
  events_point(events)
end
local reply = {'updated', unpack(redis.call('HGETALL', policy))}
audit_append(now, {'metadata.scope_pattern', scope_pattern, unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
