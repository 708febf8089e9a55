#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/budgets.rs.
Freezes a ledger, or ends that. A frozen one takes no new reservation, no usage event and no funding; what is reserved
already can be committed.

The audit entry gets the resource.

KEYS[1]   write  tenant_key   hash    tenant:<tenant>
KEYS[2]   write  budget_key   hash    budget:<tenant>:<unit>:<scope>
KEYS[3]   write  counts       hash    counts
KEYS[4]   write  event_log    stream  events:<tenant>:<day>
KEYS[5]   write  outbox       stream  outbox
KEYS[6]   write  days         zset    days
KEYS[7]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[8]   write  chain        hash    chain:<tenant>
KEYS[9]   write  unsealed     set     unsealed
KEYS[10]  write  short_lived  hash    short_lived:<tenant>
KEYS[11]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]     day           yyyymmdd
ARGV[2]     day_start_ms  int64
ARGV[3]     payload_hash  text
ARGV[4]     context       text        The request cause, lines of name and value.
ARGV[5]     tenant        text
ARGV[6]     scope         text
ARGV[7]     unit          text
ARGV[8]     wanted        text        FROZEN or ACTIVE.
ARGV[9]     reason        text or ''
ARGV[10..]  audit         to the end  Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed | budget_not_found |
  corrupt key | budget_closed | unchanged | changed record
Writes:
  On changed: the counts, the ledger, the event, the audit entry. Otherwise nothing.
]]
local tenant_key, budget_key, counts, event_log, outbox, days, audit_log, chain, unsealed, short_lived, idempotency
  = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, scope, unit, wanted, reason = unpack(ARGV, 1, 9)
local audit_from = 10
-- End of the signature.
-- @include base/time, access/tenant, log/days, admin/counts, log/events, log/audit, access/idempotency

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local status, ledger_id = unpack(redis.call('HMGET', budget_key, 'status', 'ledger_id'))
if not status and redis.call('EXISTS', budget_key) == 0 then return {'budget_not_found'} end
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
audit_append(now, {'resource_type', 'budget', 'resource_id', ledger_id, unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
local reply = {'changed', unpack(redis.call('HGETALL', budget_key))}
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
