#!lua flags=no-writes,allow-oom
--[[
list: up to a number of a tenant's reservations in the order of an index, from a position on.
KEYS[1] api_key hash    KEYS[2] tenant hash    KEYS[3..] indexes zset, in walking order: the reservations of days by
creation, or the due times of the active ones. Keys built: the reservations that they name, read only.
ARGV[1] key_hash                          ARGV[5] direction asc | desc
ARGV[2] tenant                            ARGV[6] rows at most
ARGV[3] caller key | admin                ARGV[7] low score, ARGV[8] high score, both inclusive
ARGV[4] reservation_prefix of the keys    ARGV[9] after_id or '': in the first index, of the score where the walk starts,
                                                  the rows up to this id were seen
ARGV[10..] fields
Reply: unauthorized why | forbidden permission
  | listed now_ms scope_filter longest_life_ms|'' complete(1|0), then for each row: index id score, and an array of the
    fields, each false where it is missing; an empty one where the key holds no hash
Rows of one score come in ascending order of id whatever the direction. complete: no row is left in any index.
]]
-- @include base/time, access/access, base/hash_fields
local key_hash, tenant, caller, prefix, direction, rows_text, low, high, after_id = unpack(ARGV, 1, 9)

-- The ids of one index from the start of the walk on, at most count, and whether the index has no more.
local function index_page(index, count, resumed)
  local page, start = {}, direction == 'asc' and low or high
  local bound = start
  if resumed then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, start, start)) do
      if id > after_id then page[#page + 1] = {id, start} end
    end
    bound = '(' .. start
  end
  if #page >= count then return page, false end
  local wanted = count - #page
  local found
  if direction == 'asc' then
    found = redis.call('ZRANGEBYSCORE', index, bound, high, 'WITHSCORES', 'LIMIT', 0, wanted)
    for i = 1, #found, 2 do page[#page + 1] = {found[i], found[i + 1]} end
  else
    found = redis.call('ZREVRANGEBYSCORE', index, bound, low, 'WITHSCORES', 'LIMIT', 0, wanted)
    -- Redis turns ties around with the direction: read each score again, ascending.
    local score = nil
    for i = 2, #found, 2 do
      if found[i] ~= score then
        score = found[i]
        for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, score, score)) do page[#page + 1] = {id, score} end
      end
    end
  end
  return page, #found < wanted * 2
end

local now = now_ms()
local refusal, why
if caller == 'key' then refusal, why = access_refusal(KEYS[1], key_hash, tenant, 'reservations:list', now) end
if refusal then return {refusal, why} end
local longest_life = hash_fields(KEYS[2], 'longest_life_ms')[1]
local rows, reply, taken = tonumber(rows_text), {'listed', now, why or '', longest_life or '', 1}, 0
for i = 3, #KEYS do
  if taken == rows then
    reply[5] = 0
    break
  end
  local page, complete = index_page(KEYS[i], rows - taken, i == 3 and after_id ~= '')
  for _, row in ipairs(page) do
    if taken == rows then
      complete = false
      break
    end
    taken = taken + 1
    local n, fields = #reply, hash_fields(prefix .. row[1], unpack(ARGV, 10))
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i - 2, row[1], row[2], fields.err and {} or fields
  end
  if not complete then
    reply[5] = 0
    break
  end
end
return reply
