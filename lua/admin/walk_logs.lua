#!lua flags=no-writes,allow-oom
--[[
walk_logs: a number of entries of a tenant's logs in their order, from a position on: events, or audit entries for the admin
key alone.
KEYS[1] api_key hash    KEYS[2] tenant hash    KEYS[3..] logs stream, of days, in walking order
ARGV[1] key_hash, '' for the admin key    ARGV[4] direction asc | desc
ARGV[2] tenant                            ARGV[5] low, ARGV[6] high: bounds of the entries, as XRANGE has them
ARGV[3] scope that is asked for, or ''    ARGV[7] rows at most
Reply: unauthorized why | forbidden permission | scope_forbidden
  | listed scope_filter complete(1|0), then for each row: number of its log, entry, and an array of names and values
complete: no row is left in any log. A key that holds no stream holds no entries.
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access
local key_hash, tenant, scope, direction, low, high, rows_text = unpack(ARGV)

local function entries(log, count)
  local found
  if direction == 'asc' then
    found = redis.pcall('XRANGE', log, low, high, 'COUNT', count)
  else
    found = redis.pcall('XREVRANGE', log, high, low, 'COUNT', count)
  end
  if not found.err then return found end
  -- That its slot is on its way to another node says nothing about the log.
  if not found.err:find('WRONGTYPE', 1, true) then error(found) end
  return {}
end

local refusal, why, filter =
  admin_access_refusal(KEYS[1], KEYS[2], key_hash, tenant, 'events:read', scope, now_ms())
if refusal then return {refusal, why} end
local left, reply = tonumber(rows_text), {'listed', filter or '', 1}
for i = 3, #KEYS do
  if left == 0 then
    reply[3] = 0
    break
  end
  for _, entry in ipairs(entries(KEYS[i], left)) do
    left = left - 1
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = i - 2, entry[1], entry[2]
  end
end
if left == 0 then reply[3] = 0 end
return reply
