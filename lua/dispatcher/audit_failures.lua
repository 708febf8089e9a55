#!lua flags=allow-oom
--[[
audit_failures: appends the entry that sums up the refused requests of unknown callers in a past minute beyond those that
were booked, where no later one did.
KEYS[1] audit_failures  hash  of the sentinel    KEYS[4] chain     hash    KEYS[6] days   zset
KEYS[2] audit_failures  zset                     KEYS[5] unsealed  set     KEYS[7] lease  hash
KEYS[3] audit_log       stream  of the day
ARGV[1] sentinel    ARGV[2] day yyyymmdd    ARGV[3] day_start_ms    ARGV[4] fencing_token
Reply: clock now_ms | fenced | early | flushed entries
]]
-- @include base/time, access/tenant, base/days, log/audit, log/audit_failures
local counter, index, audit_log, chain, unsealed, days, lease = unpack(KEYS)
local sentinel, day, day_start_ms, token = unpack(ARGV)
local now = now_ms()
if now < tonumber(day_start_ms) or now >= day_start_ms + DAY_MS then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local due_ms = redis.call('ZSCORE', index, sentinel)
if due_ms and tonumber(due_ms) > now then return {'early'} end
audit_failures_check(counter, index)
local audit_append = audit_trail(sentinel, audit_log, chain, unsealed, days)

-- Effects: none can fail.
local appended = audit_failures_flush(counter, index, sentinel, audit_append, now)
if appended > 0 then day_register(days, nil, {}, sentinel, day, now) end
return {'flushed', appended}
