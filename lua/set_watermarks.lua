#!lua
--[[
set_watermarks: notes up to when some partitions are in a view over all tenants. What was further stays.
KEYS[1] watermarks  hash  partition → ms: all that happened before is in the view; `all`: the same for all partitions
ARGV[1] how many partitions there are    ARGV[2..] partition and ms, in turn
Reply: noted all, 0 while a partition has none
]]
local watermarks, partitions = KEYS[1], tonumber(ARGV[1])
local stored, known, set = {}, 0, {}
local fields = redis.call('HGETALL', watermarks)
for i = 1, #fields, 2 do
  if fields[i] ~= 'all' then stored[fields[i]], known = fields[i + 1], known + 1 end
end
for i = 2, #ARGV, 2 do
  local partition, ms = ARGV[i], ARGV[i + 1]
  if not stored[partition] then known = known + 1 end
  if not stored[partition] or tonumber(stored[partition]) < tonumber(ms) then
    stored[partition] = ms
    set[#set + 1], set[#set + 2] = partition, ms
  end
end
local all = nil
for _, ms in pairs(stored) do
  if not all or tonumber(ms) < tonumber(all) then all = ms end
end
if known < partitions then all = nil end

-- Effects: none can fail.
if #set > 0 then redis.call('HSET', watermarks, 'all', all or '0', unpack(set)) end
return {'noted', all or '0'}
