--[[
usage_place: where a combination of usage lies. The first 500 lie in the hash of the day, whose field `combinations` has the number of
all and their bytes. Others lie in hashes beside it. What there is no room for is counted in the field `<UNIT> other`.
]]

-- For a combination that is not in the hash of the day. Returns key and field, the value if there is one, or the new `combinations`.
-- The keys beside that hash are not declared: while their slot moves, it raises.
local function usage_place(usage, combination)
  local USAGE_FIRST, USAGE_HASHES, USAGE_HASH_MAX, USAGE_MAX, USAGE_BYTES_MAX = 500, 32, 1000, 20000, 4194304
  local number, bytes = (redis.call('HGET', usage, 'combinations') or '0 0'):match('^(%d+) (%d+)$')
  number, bytes = (tonumber(number) or USAGE_MAX) + 1, (tonumber(bytes) or 0) + #combination
  local key, has_room = usage, number <= USAGE_MAX and bytes <= USAGE_BYTES_MAX
  if number > USAGE_FIRST then
    key = usage .. ':' .. tonumber(redis.sha1hex(combination):sub(1, 4), 16) % USAGE_HASHES
    local value = redis.call('HGET', key, combination)
    if value then return key, combination, value end
    -- Whoever chooses the names of actions could choose the hash.
    has_room = has_room and redis.call('HLEN', key) < USAGE_HASH_MAX
  end
  if has_room then return key, combination, nil, number .. ' ' .. bytes end
  local other = combination:match('^%S+') .. ' other'
  return usage, other, redis.call('HGET', usage, other) or nil
end
