#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/restore_lanes.rs.
Puts the deliveries of a subscription that are open, and in none of its lanes, back into these in order: before what is
there. Counts anew what is open and in flight, which may be wrong where a lane or a record was deleted.

restored: how many were in no lane. damaged: the key of another type for which nothing was done, and why; or ''.

KEYS[1]  read   lease   hash  lease
KEYS[2]  write  lanes   zset  lanes
KEYS[3]  read   claims  zset  claims
KEYS[4]  write  open    hash  open
KEYS[5]  read   index   zset  deliveries:<subscription_id>:<today>
built    read           hash  delivery:<delivery_id>
built    read           hash  webhook:<subscription_id>
built    read           hash  tenant:<tenant>
built    write          list  lane:<lane>
built    write          hash  window:<subscription_id>

ARGV[1]    fencing_token    int64
ARGV[2]    delivery_prefix  prefix delivery:
ARGV[3]    lane_prefix      prefix lane:
ARGV[4]    window_prefix    prefix window:
ARGV[5]    webhook_prefix   prefix webhook:
ARGV[6]    tenant_prefix    prefix tenant:
ARGV[7]    subscription_id  text
ARGV[8]    queued           int64
    How many of its deliveries had ever been queued when the caller began to look.
ARGV[9..]  deliveries       to the end        Those that were open then, oldest first.

Replies, the first that applies:
  fenced | moved | restored count damaged
Writes:
  On restored: lanes and their times, retries; the counts of the window and of the owner.
]]
local lease, lanes, claims, open, index = unpack(KEYS)
local fencing_token, delivery_prefix, lane_prefix, window_prefix, webhook_prefix, tenant_prefix, subscription_id,
  queued = unpack(ARGV, 1, 8)
local deliveries_from = 9
-- End of the signature.
-- @include base/time, delivery/book
-- Deliveries that may have been queued since the caller looked; ids that one command writes.
local SINCE_MAX, PUSHED = 500, 500
local now = now_ms()
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local book = book_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix})
local counts, counted = {open = 0, flying = 0, retrying = 0, replaying = 0}, {}
local found, names, waits = {}, {}, {}
local subscription, retries

-- Returns a lane with the ids in it, read once.
local function lane_read(name)
  local lane = found[name]
  if lane then return lane end
  lane = {name = name, ids = book_read(book, 'LRANGE', lane_prefix .. name, 0, -1), has = {}, missing = {}}
  for _, id in ipairs(lane.ids) do lane.has[id] = true end
  found[name], names[#names + 1] = lane, name
  return lane
end

-- Counts a delivery if it is open, and notes where it is missing.
local function count(id)
  if counted[id] then return end
  counted[id] = true
  local delivery = book_delivery(book, id)
  if not delivery or delivery.subscription ~= subscription_id then return end
  local flies = redis.call('ZSCORE', claims, id)
  counts.open = counts.open + 1
  counts.flying = counts.flying + (flies and 1 or 0)
  counts.replaying = counts.replaying + (is_replayed(delivery.lane) and 1 or 0)
  if delivery.is_retry then
    counts.retrying = counts.retrying + (flies and 1 or 0)
    if not flies and not redis.call('ZSCORE', retries, id) then waits[#waits + 1] = delivery end
  elseif delivery.lane ~= '' then
    local lane = lane_read(delivery.lane)
    if not lane.has[id] then lane.missing[#lane.missing + 1] = id end
  end
end

-- Returns those that were queued since the caller looked, oldest first; nil where they are too many, or not all of this day.
local function queued_since()
  local since = (tonumber(book_read(book, 'HGET', subscription.window, 'queued')) or 0) - tonumber(queued)
  if since <= 0 then return {} end
  if since > SINCE_MAX then return nil end
  local ids = {}
  for _, row in ipairs(book_read(book, 'ZREVRANGE', index, 0, 2 * since - 1)) do
    local number, id = row:match('^(%d+) (.*)$')
    if tonumber(number) > tonumber(queued) then table.insert(ids, 1, id) end
  end
  return #ids >= since and ids or nil
end

-- Counts and finds everything. Returns whether the caller has to look again.
local function look()
  subscription = book_subscription(book, subscription_id)
  retries = lane_prefix .. subscription_id .. ':retries'
  book_read(book, 'ZCARD', retries)
  local since = queued_since()
  if not since then return true end
  for at = deliveries_from, #ARGV do count(ARGV[at]) end
  for _, id in ipairs(since) do count(id) end
  local owner, partition = subscription.owner.name, delivery_prefix:match('{(%x+)}')
  if owner ~= '' and owner ~= '__system__' then lane_read(subscription_id .. ':' .. partition .. ':' .. owner) end
  -- One without a record ends when it is looked at.
  for _, name in ipairs(names) do
    for _, id in ipairs(found[name].ids) do
      if not counted[id] and redis.call('EXISTS', delivery_prefix .. id) == 0 then counts.open = counts.open + 1 end
    end
  end
  return false
end

local is_read, again = book_try(book, look)
if not is_read then return {'restored', 0, again} end
if again then return {'moved'} end
redis.call('ZCARD', lanes)
local before = tonumber(redis.call('HGET', subscription.window, 'open')) or 0
redis.call('HLEN', open)

-- Effects: none can fail.

-- Writes a lane with what was missing in it: behind what is in flight, before the others.
local function lane_write(lane)
  local key, ids, flies = lane_prefix .. lane.name, {}, true
  for _, id in ipairs(lane.ids) do
    if flies and not redis.call('ZSCORE', claims, id) then
      flies = false
      for _, missing in ipairs(lane.missing) do ids[#ids + 1] = missing end
    end
    ids[#ids + 1] = id
  end
  if flies then
    for _, missing in ipairs(lane.missing) do ids[#ids + 1] = missing end
  end
  redis.call('DEL', key)
  for at = 1, #ids, PUSHED do redis.call('RPUSH', key, unpack(ids, at, math.min(at + PUSHED - 1, #ids))) end
end

local restored = #waits
for _, name in ipairs(names) do
  local lane = found[name]
  if #lane.missing > 0 then lane_write(lane) end
  restored = restored + #lane.missing
  if #lane.ids + #lane.missing > 0 then redis.call('ZADD', lanes, now, name) end
end
for _, delivery in ipairs(waits) do
  local due_ms = redis.call('HGET', delivery.key, 'next_retry_at_ms')
  book_wait(book, lanes, delivery, subscription, tonumber(due_ms) and due_ms or now)
end
if redis.call('EXISTS', subscription.window) == 1 then
  redis.call('HSET', subscription.window, 'open', counts.open, 'flying', counts.flying, 'retrying', counts.retrying,
    'replaying', counts.replaying)
  redis.call('HDEL', subscription.window, 'uncounted')
  open_add(open, subscription.owner.name, counts.open - before)
end
return {'restored', restored, ''}
