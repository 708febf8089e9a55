#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Reads up to a number of a tenant's reservations or usage events in the order of indexes, from a position on.

Rows of one score come in ascending order of id whatever the direction. complete: no row is left in any index. The
fields of a row are an empty array where the key holds no hash.

KEYS[1]    read  api_key     hash  apikey:<key_id>
KEYS[2]    read  tenant_key  hash  tenant:<tenant>
KEYS[3..]  read  indexes     zset  rsvs:<tenant>:<day> | usage_events:<tenant>:<day> | due:<tenant> | due:<tenant>:other_graces
built      read              hash  rsv:<reservation_id>
built      read              hash  usage_event:<event_id>

ARGV[1]    key_hash       text        Of the API key; empty for the admin key.
ARGV[2]    tenant         text
ARGV[3]    direction      text        asc or desc.
ARGV[4]    rows           int64       How many at most.
ARGV[5]    low            int64       Lowest score.
ARGV[6]    high           int64       Highest score.
ARGV[7]    after_id       text or ''
    In the first index, of the score where the walk starts, the rows up to this id were seen.
ARGV[8]    record_prefix  text        Of reservations or of usage events.
ARGV[9..]  names          to the end

Replies, the first that applies:
  unauthorized why | forbidden permission | listed now_ms scope_filter longest_life_ms complete index_id_score_fields
Writes:
  Nothing.
]]
local api_key, tenant_key = unpack(KEYS, 1, 2)
local key_hash, tenant, direction, rows, low, high, after_id, record_prefix = unpack(ARGV, 1, 8)
local indexes_from = 3
local names_from = 9
-- End of the signature.
-- @include base/time, access/access, base/hash_fields

-- Among the rows of one score: the rank of the first one after an id, which may be gone, and the rank after the last one.
-- They are never all read, since their number is not bounded.
local function ranks_behind(index, score, id)
  local first = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local last = first + redis.call('ZCOUNT', index, score, score)
  local ends = last
  while first < last do
    local middle = math.floor((first + last) / 2)
    if redis.call('ZRANGE', index, middle, middle)[1] > id then last = middle else first = middle + 1 end
  end
  return first, ends
end

-- The rows of one index from the start of the walk on, ids and scores, at most count, and whether the index has no more.
local function index_page(index, count, resumed)
  local page, bound, last = {}, low, high
  if direction == 'desc' then bound, last = high, low end
  if resumed then
    local rank, ends = ranks_behind(index, bound, after_id)
    if rank < ends then page = redis.call('ZRANGE', index, rank, math.min(rank + count, ends) - 1, 'WITHSCORES') end
    bound = '(' .. bound
  end
  local left = count - #page / 2
  if left == 0 then return page, false end
  if direction == 'asc' then
    local found = redis.call('ZRANGEBYSCORE', index, bound, last, 'WITHSCORES', 'LIMIT', 0, left)
    for at = 1, #found do page[#page + 1] = found[at] end
    return page, #found < 2 * left
  end
  local found, from = redis.call('ZREVRANGEBYSCORE', index, bound, last, 'WITHSCORES', 'LIMIT', 0, left), 1
  while found[from] do
    -- The rows of one score, which Redis turns around with the direction. Of the last ones, others may come first.
    local score, behind = found[from + 1], from
    while found[behind + 1] == score do behind = behind + 2 end
    if found[behind] or #found < 2 * left then
      for at = behind - 2, from, -2 do page[#page + 1], page[#page + 2] = found[at], score end
    else
      local ids = redis.call('ZRANGEBYSCORE', index, score, score, 'LIMIT', 0, (behind - from) / 2)
      for _, id in ipairs(ids) do page[#page + 1], page[#page + 2] = id, score end
    end
    from = behind
  end
  return page, #found < 2 * left
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
  for at = 1, #page, 2 do
    local n, fields = #reply, hash_fields(record_prefix .. page[at], unpack(ARGV, names_from))
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i - indexes_from + 1, page[at], page[at + 1], fields.err and {} or fields
  end
  taken = taken + #page / 2
  if not complete then
    reply[5] = 0
    break
  end
end
return reply
