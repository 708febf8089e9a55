#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Reads up to a number of a tenant's reservations in the order of indexes, from a position on.

Rows of one score come in ascending order of id whatever the direction. complete: no row is left in any index. The
fields of a row are an empty array where the key holds no hash.

KEYS[1]    read  api_key     hash  apikey:<key_id>
KEYS[2]    read  tenant_key  hash  tenant:<tenant>
KEYS[3..]  read  indexes     zset  rsvs:<tenant>:<day> | due:<tenant>
built      read              hash  rsv:<reservation_id>

ARGV[1]    key_hash            text         Of the API key; empty for the admin key.
ARGV[2]    tenant              text
ARGV[3]    reservation_prefix  prefix rsv:
ARGV[4]    direction           text         asc or desc.
ARGV[5]    rows                int64        How many at most.
ARGV[6]    low                 int64        Lowest score.
ARGV[7]    high                int64        Highest score.
ARGV[8]    after_id            text or ''
    In the first index, of the score where the walk starts, the rows up to this id were seen.
ARGV[9..]  names               to the end

Replies, the first that applies:
  unauthorized why | forbidden permission | listed now_ms scope_filter longest_life_ms complete index_id_score_fields
Writes:
  Nothing.
]]
local api_key, tenant_key = unpack(KEYS, 1, 2)
local key_hash, tenant, reservation_prefix, direction, rows, low, high, after_id = unpack(ARGV, 1, 8)
local indexes_from = 3
local names_from = 9
-- End of the signature.
-- @include base/time, access/access, base/hash_fields

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
if key_hash ~= '' then refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:list', now) end
if refusal then return {refusal, why} end
local longest_life = hash_fields(tenant_key, 'longest_life_ms')[1]
local reply, taken = {'listed', now, why or '', longest_life or '', 1}, 0
rows = tonumber(rows)
for i = indexes_from, #KEYS do
  if taken == rows then
    reply[5] = 0
    break
  end
  local page, complete = index_page(KEYS[i], rows - taken, i == indexes_from and after_id ~= '')
  for _, row in ipairs(page) do
    if taken == rows then
      complete = false
      break
    end
    taken = taken + 1
    local n, fields = #reply, hash_fields(reservation_prefix .. row[1], unpack(ARGV, names_from))
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i - indexes_from + 1, row[1], row[2], fields.err and {} or fields
  end
  if not complete then
    reply[5] = 0
    break
  end
end
return reply
