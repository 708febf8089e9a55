#!lua
--[[
create_tenant: records a tenant, once. The same id and name again find the tenant as it is.
KEYS[1] tenant     hash      KEYS[4] outbox     stream             KEYS[7] chain        hash
KEYS[2] tenants    zset      KEYS[5] days       zset               KEYS[8] unsealed     set
KEYS[3] event_log  stream    KEYS[6] audit_log  stream  of the day KEYS[9] thresholds   hash  of the partition
KEYS[10] tenant_ids hash     KEYS[11] counts    hash               KEYS[12] idempotency hash  where there is a key
ARGV[1] tenant               ARGV[5] payload_hash
ARGV[2] day yyyymmdd         ARGV[6] context of events, lines of name and value
ARGV[3] day_start_ms         ARGV[7] digest of the tenant, as ids of events have it
ARGV[4] name                 ARGV[8] n, then n names and values of the record, then those of the audit entry, all but
                                     its status
Reply, first that holds: clock now_ms | idempotency_mismatch | replayed outcome… | duplicate | exists record…
  | created record…
Writes on created: the counts, the record, the partition's lists, the event, the audit entry. On exists: the audit entry,
and the digest.
]]
-- @include base/time, access/tenant, base/days, ledger/thresholds, admin/watch, admin/counts, log/events, log/audit
-- @include access/idempotency
local tenant_key, tenants, event_log, outbox, days, audit_log, chain, unsealed, thresholds, tenant_ids, counts, idempotency =
  unpack(KEYS)
local tenant, day, day_start_ms, name, payload_hash, context, digest = unpack(ARGV, 1, 7)
local fields_end = 8 + ARGV[8]

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local stored = redis.call('HGETALL', tenant_key)
if #stored > 0 and redis.call('HGET', tenant_key, 'name') ~= name then return {'duplicate'} end
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
redis.call('HSET', tenant_ids, digest, tenant)
local audit = {unpack(ARGV, fields_end + 1)}
audit[#audit + 1], audit[#audit + 2] = 'status', #stored > 0 and 200 or 201
if #stored == 0 then
  redis.call('HSET', tenant_key, 'tenant_id', tenant, 'name', name, 'status', 'ACTIVE', unpack(ARGV, 9, fields_end))
  redis.call('HSET', tenant_key, 'created_at_ms', now)
  if watched ~= '' then
    redis.call('HSET', tenant_key, 'thresholds', watch_union({table.concat(THRESHOLDS_DEFAULT, ' '), watched}))
  end
  settings[TENANT_STATUS] = 'ACTIVE'
  reply = {'created', unpack(redis.call('HGETALL', tenant_key))}
  local events = events_new(event_log, outbox, tenant, day, now, context)
  event_append(events, 'tenant.created', nil, {'data.new_status', 'ACTIVE', 'data.changed_fields', ''})
  events_point(events)
end
audit_append(now, audit)
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply)
return reply
