#!lua flags=allow-oom
--[[
freeze_budget: freezes a ledger, or ends that: a frozen one takes no new reservation, no posted event and no funding.
What is reserved already settles.
KEYS[1] tenant     hash      KEYS[4] outbox     stream             KEYS[7] chain        hash
KEYS[2] budget     hash      KEYS[5] days       zset               KEYS[8] unsealed     set
KEYS[3] event_log  stream    KEYS[6] audit_log  stream  of the day KEYS[9] counts       hash
KEYS[10] idempotency  hash  where there is a key
ARGV[1] tenant          ARGV[4] scope                    ARGV[7] reason or ''
ARGV[2] day yyyymmdd    ARGV[5] unit                     ARGV[8] payload_hash
ARGV[3] day_start_ms    ARGV[6] status FROZEN | ACTIVE   ARGV[9] context of events, lines of name and value
ARGV[10..] names and values of the audit entry, all but the resource
Reply, first that holds: clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed
  | not_found | corrupt what | budget_closed | unchanged | changed record…
Writes on changed: the counts, the ledger, the event, the audit entry. Else nothing.
]]
-- @include base/time, access/tenant, base/days, admin/counts, log/events, log/audit, access/idempotency
local tenant_key, budget_key, event_log, outbox, days, audit_log, chain, unsealed, counts, idempotency = unpack(KEYS)
local tenant, day, day_start_ms, scope, unit, wanted, reason, payload_hash, context = unpack(ARGV, 1, 9)

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local status, ledger_id = unpack(redis.call('HMGET', budget_key, 'status', 'ledger_id'))
if not status and redis.call('EXISTS', budget_key) == 0 then return {'not_found'} end
local known = status == 'ACTIVE' or status == 'FROZEN' or status == 'CLOSED'
if not (known and ledger_id) then return {'corrupt', budget_key} end
if status == 'CLOSED' then return {'budget_closed'} end
if status == wanted then return {'unchanged'} end
counts_check(counts)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
counts_move(counts, 'budget ' .. unit, status, wanted)
redis.call('HSET', budget_key, 'status', wanted, 'updated_at_ms', now)
local events = events_new(event_log, outbox, tenant, day, now, context)
local data = {'data.ledger_id', ledger_id, 'data.unit', unit, 'data.operation', 'STATUS_CHANGE'}
if reason ~= '' then data[7], data[8] = 'data.reason', reason end
event_append(events, wanted == 'FROZEN' and 'budget.frozen' or 'budget.unfrozen', scope, data)
events_point(events)
audit_append(now, {'resource_type', 'budget', 'resource_id', ledger_id, unpack(ARGV, 10)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'changed', unpack(redis.call('HGETALL', budget_key))}
idempotency_keep(idempotency, payload_hash, reply)
return reply
