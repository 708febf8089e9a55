#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/tenants.rs.
Records a tenant, once. The same id and name again find the tenant as it is.

The audit entry gets its status.

KEYS[1]   read   thresholds   hash    thresholds
KEYS[2]   write  tenant_key   hash    tenant:<tenant>
KEYS[3]   write  tenants      zset    tenants
KEYS[4]   write  tenant_ids   hash    tenantids
KEYS[5]   write  counts       hash    counts
KEYS[6]   write  event_log    stream  events:<tenant>:<day>
KEYS[7]   write  outbox       stream  outbox
KEYS[8]   write  days         zset    days
KEYS[9]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[10]  write  chain        hash    chain:<tenant>
KEYS[11]  write  unsealed     set     unsealed
KEYS[12]  write  short_lived  hash    short_lived:<tenant>
KEYS[13]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                day            yyyymmdd
ARGV[2]                day_start_ms   int64
ARGV[3]                payload_hash   text
ARGV[4]                context        text            The request cause, lines of name and value.
ARGV[5]                tenant         text
ARGV[6]                name           text
ARGV[7]                tenant_digest  text            As ids of events have it.
ARGV[8]                fields         n, then n more  Names and values of the record.
ARGV[fields_to + 1..]  audit          to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | duplicate_tenant | exists record | created record
Writes:
  On created: the counts, the tenant, the partition's lists, the event, the audit entry. On exists: the audit entry and
  the digest.
]]
local thresholds, tenant_key, tenants, tenant_ids, counts, event_log, outbox, days, audit_log, chain, unsealed,
  short_lived, idempotency = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, name, tenant_digest = unpack(ARGV, 1, 7)
local fields_from = 9
local fields_to = 8 + ARGV[8]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, ledger/thresholds, admin/watch, admin/counts, log/events, log/audit
-- @include access/idempotency

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local stored = redis.call('HGETALL', tenant_key)
if #stored > 0 and redis.call('HGET', tenant_key, 'name') ~= name then return {'duplicate_tenant'} end
local _, settings = tenant_refusal(tenant_key)
local watched = redis.call('HGET', thresholds, 'union') or ''
local reply = {'exists', unpack(stored)}
redis.call('HLEN', tenant_ids)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
redis.call('ZCARD', tenants)
if #stored == 0 then counts_check(counts) end

-- Effects: none can fail.
if #stored == 0 then
  counts_move(counts, 'tenant', nil, 'ACTIVE')
  redis.call('ZADD', tenants, 0, tenant)
end
redis.call('HSET', tenant_ids, tenant_digest, tenant)
local audit = {unpack(ARGV, audit_from)}
audit[#audit + 1], audit[#audit + 2] = 'status', #stored > 0 and 200 or 201
if #stored == 0 then
  redis.call('HSET', tenant_key, 'tenant_id', tenant, 'name', name, 'status', 'ACTIVE', unpack(ARGV, fields_from, fields_to))
  redis.call('HSET', tenant_key, 'created_at_ms', now)
  local watched_fields = watch_fields(watched)
  if #watched_fields > 0 then redis.call('HSET', tenant_key, unpack(watched_fields)) end
  settings[TENANT_STATUS] = 'ACTIVE'
  reply = {'created', unpack(redis.call('HGETALL', tenant_key))}
  local events = events_new(event_log, outbox, tenant, day, now, context)
  event_append(events, 'tenant.created', nil, {'data.new_status', 'ACTIVE', 'data.changed_fields', ''})
  events_point(events)
end
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
