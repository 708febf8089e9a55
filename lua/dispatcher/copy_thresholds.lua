#!lua flags=allow-oom
--[[
copy_thresholds: brings the thresholds that the operator's subscriptions watch to the tenants of one partition, some at a
time. Repeating it is harmless, and an older version changes nothing.
KEYS[1] thresholds  hash  of the partition
ARGV[1] version    ARGV[2] union, in millionths, ascending, blanks between; or ''    ARGV[3] tenants at a time
Keys built: by partition_prefix, the partition's list of tenants, their records and what they watch themselves.
Reply: more | copied
]]
-- @include base/time, ledger/thresholds, admin/watch
local thresholds = KEYS[1]
local version, union, rows = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local partition_prefix = thresholds:sub(1, -#'thresholds' - 1)
local stored = redis.call('HMGET', thresholds, 'version', 'pending', 'after')
local copied, pending, after = tonumber(stored[1] or '0'), tonumber(stored[2] or '0'), stored[3] or ''
if version <= copied or version < pending then return {'copied'} end
local from = version == pending and after ~= '' and '(' .. after or '-'
local tenants = redis.call('ZRANGEBYLEX', partition_prefix .. 'tenants', from, '+', 'LIMIT', 0, rows)

-- Effects: none can fail. A tenant that is made meanwhile finds the union already.
redis.call('HSET', thresholds, 'union', union)
for _, tenant in ipairs(tenants) do
  local tenant_key = partition_prefix .. 'tenant:' .. tenant
  if redis.call('EXISTS', tenant_key) == 1 then
    watch_apply(tenant_key, partition_prefix .. 'watch:' .. tenant, union)
  end
end
if #tenants < rows then
  redis.call('HSET', thresholds, 'version', version)
  redis.call('HDEL', thresholds, 'pending', 'after')
  return {'copied'}
end
redis.call('HSET', thresholds, 'pending', version, 'after', tenants[#tenants])
return {'more'}
