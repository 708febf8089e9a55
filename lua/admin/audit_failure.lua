#!lua
--[[
audit_failure: books a refused admin request where it belongs: with the tenant that it was to act on, if that tenant
exists, else with the sentinel of the partition. Where per_minute is given, no more than that are booked in a minute; the
rest is counted and summed up.
KEYS[1] tenant     hash                  KEYS[4] audit_log  stream  of the sentinel, of the day
KEYS[2] audit_log  stream  of the day    KEYS[5] chain      hash    of the sentinel
KEYS[3] chain      hash                  KEYS[6] days       zset
KEYS[7] audit_failures  hash  of the sentinel    KEYS[8] audit_failures  zset    KEYS[9] unsealed  set
ARGV[1] tenant      ARGV[3] day yyyymmdd    ARGV[5] per_minute, '' for no bound; only where no tenant is known
ARGV[2] sentinel    ARGV[4] day_start_ms    ARGV[6..] names and values of the audit entry
Where no tenant is known, [1] to [3] are the sentinel's. Reply: clock now_ms | booked tenant
]]
-- @include base/time, access/tenant, base/days, log/audit, log/audit_failures
local tenant_key, audit_log, chain, sentinel_log, sentinel_chain, days, counter, index, unsealed = unpack(KEYS)
local tenant, sentinel, day, day_start_ms, per_minute = unpack(ARGV, 1, 5)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local _, settings = tenant_refusal(tenant_key)
if settings.err or not settings[TENANT_STATUS] then
  tenant, audit_log, chain, settings = sentinel, sentinel_log, sentinel_chain, {}
end
local entry = {unpack(ARGV, 6)}
if per_minute ~= '' then audit_failures_check(counter, index) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days)

-- Effects: none can fail.
if per_minute == '' then
  audit_append(now, entry)
else
  audit_failure_append(counter, index, sentinel, per_minute, audit_append, now, entry)
end
day_register(days, tenant_key, settings, tenant, day, now)
return {'booked', tenant}
