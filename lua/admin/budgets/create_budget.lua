#!lua
--[[
create_budget: opens the ledger of one scope and unit.
KEYS[1] api_key  hash    KEYS[4] budgets    zset, lexical    KEYS[7] days       zset
KEYS[2] tenant   hash    KEYS[5] event_log  stream           KEYS[8] audit_log  stream  of the day
KEYS[3] budget   hash    KEYS[6] outbox     stream           KEYS[9] chain      hash
KEYS[10] unsealed set    KEYS[11] counts    hash              KEYS[12] idempotency  hash  where there is a key
ARGV[1] key_hash, '' for the admin key    ARGV[6] unit                ARGV[11] overage_policy or ''
ARGV[2] tenant                            ARGV[7] member of budgets   ARGV[12] payload_hash
ARGV[3] day yyyymmdd                      ARGV[8] ledger_id           ARGV[13] context of events, lines of name and value
ARGV[4] day_start_ms                      ARGV[9] allocated  int64    ARGV[14] n, then n names and values that only the
ARGV[5] scope                             ARGV[10] overdraft_limit            record keeps, then those of the audit entry
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | clock now_ms | idempotency_mismatch
  | replayed outcome… | tenant_unreadable | tenant_closed | tenant_suspended | tenant_not_found | duplicate
  | created record…
Writes on created: the counts, the ledger, the tenant's list, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, access/tenant, base/days, admin/counts
-- @include log/events, log/audit, access/idempotency
local api_key, tenant_key, budget, budgets, event_log, outbox, days, audit_log, chain, unsealed, counts, idempotency =
  unpack(KEYS)
local key_hash, tenant, day, day_start_ms, scope, unit, member, ledger_id, allocated, overdraft_limit, overage_policy,
  payload_hash, context = unpack(ARGV, 1, 13)
local fields_end = 14 + ARGV[14]

-- Refusals: read only.
local now = now_ms()
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:write', scope, now)
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused then return {tenant_refused} end
if not settings[TENANT_STATUS] then return {'tenant_not_found'} end
if redis.call('EXISTS', budget) == 1 then return {'duplicate'} end
counts_check(counts)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', budgets)

-- Effects: none can fail. Of the record, the figures that reserve and commit read stand first.
counts_move(counts, 'budget ' .. unit, nil, 'ACTIVE')
redis.call('ZADD', budgets, 0, member)
redis.call('HSET', budget, 'status', 'ACTIVE', 'remaining', allocated, 'reserved', '0', 'spent', '0',
  'allocated', allocated, 'debt', '0', 'overdraft_limit', overdraft_limit, 'is_over_limit', '0')
if overage_policy ~= '' then redis.call('HSET', budget, 'commit_overage_policy', overage_policy) end
redis.call('HSET', budget, 'ledger_id', ledger_id, 'tenant', tenant, 'scope', scope, 'unit', unit,
  'created_at_ms', now, 'updated_at_ms', now, 'base_spent', '0', 'base_debt', '0', unpack(ARGV, 15, fields_end))
local reply = {'created', unpack(redis.call('HGETALL', budget))}
local events = events_new(event_log, outbox, tenant, day, now, context)
event_append(events, 'budget.created', scope, {'data.ledger_id', ledger_id, 'data.unit', unit,
  'data.operation', 'CREATE'})
events_point(events)
audit_append(now, {unpack(ARGV, fields_end + 1)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
