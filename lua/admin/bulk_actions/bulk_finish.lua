#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk.rs.
Ends a bulk action whose rows all have an outcome: keeps the response for those who ask again, and writes the audit
entry, in one step and once. The response may be another's, if that ended the action before.

KEYS[1]  write  bulk             hash    bulk:<owner>:<digest>
KEYS[2]  write  bulks            zset    bulks
KEYS[3]  write  idempotency_due  zset    idemdue
KEYS[4]  write  tenant_key       hash    tenant:<tenant>
KEYS[5]  write  audit_log        stream  audit:<tenant>:<day>
KEYS[6]  write  chain            hash    chain:<tenant>
KEYS[7]  write  days             zset    days
KEYS[8]  write  unsealed         set     unsealed

ARGV[1]    day           yyyymmdd
ARGV[2]    day_start_ms  int64
ARGV[3]    member        text        The entry in the index `bulks`.
ARGV[4]    tenant        text        The tenant of the audit entry, or a sentinel.
ARGV[5]    response      text
ARGV[6]    in_progress   1 or 0      Whether a close has not ended.
ARGV[7]    keep_ms       int64       For so long the response is kept.
ARGV[8..]  audit         to the end  Names and values of the audit entry, except how long it took.

Replies, the first that applies:
  clock now_ms | none | finished response in_progress
Writes:
  On finished: the claim, the index, the audit entry; nothing where it was finished before.
]]
local bulk, bulks, idempotency_due, tenant_key, audit_log, chain, days, unsealed = unpack(KEYS)
local day, day_start_ms, member, tenant, response, in_progress, keep_ms = unpack(ARGV, 1, 7)
local audit_from = 8
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/audit
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local begun_ms, finished, was_in_progress = unpack(redis.call('HMGET', bulk, 'begun_ms', 'response', 'in_progress'))
if not begun_ms then return {'none'} end
if finished then return {'finished', finished, was_in_progress} end
local _, settings = tenant_refusal(tenant_key)
if settings.err then settings = {} end
local entry = {unpack(ARGV, audit_from)}
entry[#entry + 1], entry[#entry + 2] = 'metadata.duration_ms', now - begun_ms
redis.call('ZCARD', bulks)
redis.call('ZCARD', idempotency_due)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)

-- Effects: none can fail.
audit_append(now, entry)
redis.call('HSET', bulk, 'response', response, 'in_progress', in_progress)
redis.call('HDEL', bulk, 'rows', 'until_ms', 'lease_ms')
redis.call('ZADD', idempotency_due, now + keep_ms, bulk)
redis.call('ZREM', bulks, member)
day_register(days, tenant_key, settings, tenant, day, now)
return {'finished', response, in_progress}
