#!lua flags=allow-oom
--[[
bulk_finish: ends a bulk action whose rows all have an outcome: keeps the answer for those who ask again, and books the
action, in one step and once.
KEYS[1] bulk   hash    KEYS[3] tenant     hash                  KEYS[5] chain  hash
KEYS[2] bulks  zset    KEYS[4] audit_log  stream  of the day    KEYS[6] days   zset
KEYS[7] unsealed  set
ARGV[1] member of bulks    ARGV[4] day_start_ms                            ARGV[7] keep_ms: for so long the answer is kept
ARGV[2] tenant             ARGV[5] response                                ARGV[8..] names and values of the audit entry,
ARGV[3] day yyyymmdd       ARGV[6] in_progress: 1 where a close goes on              all but how long it took
[2] and [3] to [5] may be those of a sentinel. Reply: clock now_ms | none | finished response in_progress, perhaps another's
Writes on finished: the claim, the index, the audit entry; nothing where it was finished before.
]]
-- @include base/time, access/tenant, base/days, log/audit
local bulk, bulks, tenant_key, audit_log, chain, days, unsealed = unpack(KEYS)
local member, tenant, day, day_start_ms, response, in_progress, keep_ms = unpack(ARGV, 1, 7)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local begun_ms, finished, was_in_progress = unpack(redis.call('HMGET', bulk, 'begun_ms', 'response', 'in_progress'))
if not begun_ms then return {'none'} end
if finished then return {'finished', finished, was_in_progress} end
local _, settings = tenant_refusal(tenant_key)
if settings.err then settings = {} end
local entry = {unpack(ARGV, 8)}
entry[#entry + 1], entry[#entry + 2] = 'metadata.duration_ms', now - begun_ms
redis.call('ZCARD', bulks)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)

-- Effects: none can fail.
audit_append(now, entry)
redis.call('HSET', bulk, 'response', response, 'in_progress', in_progress)
redis.call('HDEL', bulk, 'rows', 'until_ms')
redis.call('PEXPIRE', bulk, keep_ms)
redis.call('ZREM', bulks, member)
day_register(days, tenant_key, settings, tenant, day, now)
return {'finished', response, in_progress}
