#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/mod.rs.
Writes the audit entry of a refused admin request: with the tenant that it was to act on, if that tenant has a record,
else with the sentinel of the partition.

Where per_minute is given, no more entries of the tenant are written in a minute; the rest is counted for a rollup.

KEYS[1]  write  tenant_key          hash    tenant:<tenant>
KEYS[2]  write  audit_log           stream  audit:<tenant>:<day>
KEYS[3]  write  chain               hash    chain:<tenant>
KEYS[4]  write  sentinel_log        stream  audit:<sentinel>:<day>
KEYS[5]  write  sentinel_chain      hash    chain:<sentinel>
KEYS[6]  write  days                zset    days
KEYS[7]  write  audit_failures      hash    auditfail:<tenant>
KEYS[8]  write  audit_failures_due  zset    auditfail
KEYS[9]  write  unsealed            set     unsealed

ARGV[1]    day           yyyymmdd
ARGV[2]    day_start_ms  int64
ARGV[3]    tenant        text         The sentinel where no tenant is known.
ARGV[4]    sentinel      text
ARGV[5]    per_minute    int64 or ''  Only where a tenant's key was refused, or the caller is unknown.
ARGV[6..]  audit         to the end   Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | recorded tenant
Writes:
  On recorded: the audit entry, or the count.
]]
local tenant_key, audit_log, chain, sentinel_log, sentinel_chain, days, audit_failures, audit_failures_due, unsealed
  = unpack(KEYS)
local day, day_start_ms, tenant, sentinel, per_minute = unpack(ARGV, 1, 5)
local audit_from = 6
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/audit, log/audit_failures
local now, counted = now_ms(), tenant
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local _, settings = tenant_refusal(tenant_key)
if settings.err or not settings[TENANT_STATUS] then
  tenant, audit_log, chain, settings = sentinel, sentinel_log, sentinel_chain, {}
end
local entry = {unpack(ARGV, audit_from)}
if per_minute ~= '' then audit_failures_check(audit_failures, audit_failures_due) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)

-- Effects: none can fail.
if per_minute == '' then
  audit_append(now, entry)
else
  audit_failure_append(audit_failures, audit_failures_due, counted, per_minute, audit_append, now, entry)
end
day_register(days, tenant_key, settings, tenant, day, now)
return {'recorded', tenant}
