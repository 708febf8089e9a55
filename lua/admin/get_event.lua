#!lua flags=no-writes,allow-oom
--[[
get_event: one event by what its id tells.
KEYS[1] tenant_ids  hash  digest → tenant of the partition
Keys built: by log_prefix, the logs of the tenant on some days, read only.
ARGV[1] log_prefix    ARGV[3] entry
ARGV[2] digest        ARGV[4] tenant, or '': the one of that digest    ARGV[5..] days yyyymmdd, the likeliest first
Reply: not_found | found tenant, names and values…
]]
local log_prefix, digest, entry, tenant = unpack(ARGV, 1, 4)
if tenant == '' then tenant = redis.call('HGET', KEYS[1], digest) end
if not tenant then return {'not_found'} end
for i = 5, #ARGV do
  local found = redis.call('XRANGE', log_prefix .. tenant .. ':' .. ARGV[i], entry, entry)
  if #found > 0 then return {'found', tenant, unpack(found[1][2])} end
end
return {'not_found'}
