--[[
usage_place: where a combination of usage lies. The first 500 lie in the hash of the day, whose field `combinations` has the number of
all and their bytes. Others lie in hashes beside it. What there is no room for is counted in the field `<UNIT> other`.
]]

local USAGE_FIRST, USAGE_HASHES, USAGE_MAX, USAGE_BYTES_MAX = 500, 32, 20000, 4194304

-- For a combination that is not in the hash of the day. Returns key and field, the value if there is one, or the new `combinations`.
-- The keys beside that hash are not declared: while their slot moves, it raises.
local function usage_place(usage, combination)
  local number, bytes = (redis.call('HGET', usage, 'combinations') or '0 0'):match('^(%d+) (%d+)$')
  number, bytes = (tonumber(number) or USAGE_MAX) + 1, (tonumber(bytes) or 0) + #combination
  local key = usage
  if number > USAGE_FIRST then
    key = usage .. ':' .. tonumber(redis.sha1hex(combination):sub(1, 4), 16) % USAGE_HASHES
    local value = redis.call('HGET', key, combination)
    if value then return key, combination, value end
  end
  if number <= USAGE_MAX and bytes <= USAGE_BYTES_MAX then return key, combination, nil, number .. ' ' .. bytes end
  local other = combination:match('^%S+') .. ' other'
  return usage, other, redis.call('HGET', usage, other) or nil
end
