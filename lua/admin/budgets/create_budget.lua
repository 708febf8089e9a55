#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/budgets.rs.
Opens the ledger of one scope and unit.

KEYS[1]   read   api_key      hash    apikey:<key_id>
KEYS[2]   write  tenant_key   hash    tenant:<tenant>
KEYS[3]   write  budget       hash    budget:<tenant>:<unit>:<scope>
KEYS[4]   write  budgets      zset    budgets:<tenant>
KEYS[5]   write  counts       hash    counts
KEYS[6]   write  turns        zset    turns
KEYS[7]   write  event_log    stream  events:<tenant>:<day>
KEYS[8]   write  outbox       stream  outbox
KEYS[9]   write  days         zset    days
KEYS[10]  write  audit_log    stream  audit:<tenant>:<day>
KEYS[11]  write  chain        hash    chain:<tenant>
KEYS[12]  write  unsealed     set     unsealed
KEYS[13]  write  short_lived  hash    short_lived:<tenant>
KEYS[14]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                day               yyyymmdd
ARGV[2]                day_start_ms      int64
ARGV[3]                payload_hash      text
ARGV[4]                context           text            The request cause, lines of name and value.
ARGV[5]                key_hash          text            Of the API key; empty for the admin key.
ARGV[6]                tenant            text
ARGV[7]                scope             text
ARGV[8]                unit              text
ARGV[9]                member            text            The entry in the index `budgets`.
ARGV[10]               ledger_id         text
ARGV[11]               allocated         int64
ARGV[12]               overdraft_limit   int64
ARGV[13]               limit             int64           Budgets that the tenant may have.
ARGV[14]               turns_at_ms       int64 or ''     When it turns first, for one that is used at once.
ARGV[15]               policy_id         text or ''      The policy whose template it follows.
ARGV[16]               policies_version  text
    The version of the tenant's policies from which it was chosen, and from when until when it applies; 0 without one.
ARGV[17]               policy_from_ms    int64           From then on the policy applies.
ARGV[18]               policy_until_ms   int64           Until then the policy applies.
ARGV[19]               fields            n, then n more  Names and values that only the record keeps.
ARGV[fields_to + 1..]  audit             to the end      Names and values of the audit entry.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | clock now_ms | idempotency_mismatch |
  replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | owner_not_found | stale now_ms version |
  duplicate_budget | too_many count limit present | created record
Writes:
  On created: the counts, the ledger, its place in the index of those that turn, the tenant's list, the event, the audit
  entry. Otherwise nothing.
]]
local api_key, tenant_key, budget, budgets, counts, turns, event_log, outbox, days, audit_log, chain, unsealed,
  short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, key_hash, tenant, scope, unit, member, ledger_id, allocated,
  overdraft_limit, limit, turns_at_ms, policy_id, policies_version, policy_from_ms, policy_until_ms
  = unpack(ARGV, 1, 18)
local fields_from = 20
local fields_to = 19 + ARGV[19]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, log/days, admin/counts
-- @include log/events, log/audit, access/idempotency

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:write', scope, now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key, 'policies')
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'owner_not_found'} end
if policy_id ~= '' then
  -- @cold ledger/policies
  local stale = policies_stale(settings, policies_version, policy_from_ms, policy_until_ms, now)
  if stale then return stale end
end
if redis.call('EXISTS', budget) == 1 then return {'duplicate_budget'} end
local present = redis.call('ZCARD', budgets)
if present >= tonumber(limit) then return {'too_many', 'budgets', limit, present + 1} end
counts_check(counts)
redis.call('ZCARD', turns)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail. The figures that reserve and commit read come first in the record.
counts_move(counts, 'budget ' .. unit, nil, 'ACTIVE')
redis.call('ZADD', budgets, 0, member)
redis.call('HSET', budget, 'status', 'ACTIVE', 'remaining', allocated, 'reserved', '0', 'spent', '0',
  'allocated', allocated, 'debt', '0', 'overdraft_limit', overdraft_limit, 'is_over_limit', '0', 'announced', '',
  'terms', '', 'turns_at_ms', '', 'limits', '', 'observes', '', 'epoch', '0')
redis.call('HSET', budget, 'ledger_id', ledger_id, 'tenant', tenant, 'scope', scope, 'unit', unit,
  'created_at_ms', now, 'updated_at_ms', now, 'base_spent', '0', 'base_debt', '0', unpack(ARGV, fields_from, fields_to))
if turns_at_ms ~= '' then redis.call('ZADD', turns, turns_at_ms, tenant .. ' ' .. unit .. ' ' .. scope) end
local reply = {'created', unpack(redis.call('HGETALL', budget))}
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'budget.created', scope, {'data.ledger_id', ledger_id, 'data.unit', unit,
  'data.operation', 'CREATE', unpack(policy_id ~= '' and {'data.policy_id', policy_id} or {})})
events_point(events)
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
