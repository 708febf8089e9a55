#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/emit.rs.
Writes the rollup of the refused requests of a tenant's keys, or of unknown callers, in a past minute beyond those that
were written, where no later request did.

KEYS[1]  read   lease               hash    lease
KEYS[2]  write  audit_failures      hash    auditfail:<tenant>
KEYS[3]  write  audit_failures_due  zset    auditfail
KEYS[4]  write  audit_log           stream  audit:<tenant>:<day>
KEYS[5]  write  chain               hash    chain:<tenant>
KEYS[6]  write  unsealed            set     unsealed
KEYS[7]  write  days                zset    days

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text      Or the sentinel of unknown callers.
ARGV[4]  fencing_token  int64

Replies, the first that applies:
  clock now_ms | fenced | early | flushed entries
Writes:
  On flushed: the audit entry; the count goes.
]]
local lease, audit_failures, audit_failures_due, audit_log, chain, unsealed, days = unpack(KEYS)
local day, day_start_ms, tenant, fencing_token = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/audit, log/audit_failures
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local due_ms = redis.call('ZSCORE', audit_failures_due, tenant)
if due_ms and tonumber(due_ms) > now then return {'early'} end
audit_failures_check(audit_failures, audit_failures_due)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)

-- Effects: none can fail.
local appended = audit_failures_flush(audit_failures, audit_failures_due, tenant, audit_append, now)
if appended > 0 then day_register(days, nil, {}, tenant, day, now) end
return {'flushed', appended}
