#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/fan_out.rs.
Queues the deliveries of some events of outboxes, and moves the cursors of these, both or neither. Where a cursor is not
as the caller read it, another has followed that outbox meanwhile. Who remembers an owner's subscriptions proves by
their mark that these are still the same; if they are not, nothing is written.

A delivery that exists already is passed over. Where a subscription or its owner has as many open as may be, only the
places of the first and the last event are kept that found no room. queued: how many were queued.

KEYS[1]    write  fanned  hash    fanned
KEYS[2]    write  lanes   zset    lanes
KEYS[3]    write  open    hash    open
KEYS[4..]  read   marks   string  webhooksmark:<owner>
built      read           hash    tenant:<tenant>
built      write          hash    delivery:<delivery_id>
built      write          list    lane:<lane>
built      write          hash    window:<subscription_id>
built      write          zset    deliveries:<subscription_id>:<day>

ARGV[1]                day                yyyymmdd
ARGV[2]                day_start_ms       int64
ARGV[3]                lane_concurrency   int64               First attempts of a lane that may be in flight at once.
ARGV[4]                tenant_prefix      prefix tenant:
ARGV[5]                delivery_prefix    prefix delivery:
ARGV[6]                lane_prefix        prefix lane:
ARGV[7]                window_prefix      prefix window:
ARGV[8]                deliveries_prefix  prefix deliveries:
ARGV[9]                owners             n, then n more
    Owners and the marks of their subscriptions, in the order of the keys.
ARGV[owners_to + 1..]  parts              to the end
    In order: the field of the cursor; the cursor as it was read or ''; the cursor to be; a number of places; and in
    these for each delivery the number of its owner, from 1; its subscription and that one's epoch; its id, lane, place
    of the event, type of the event and trace.

Replies, the first that applies:
  clock now_ms | stale owners | fanned queued cursors
Writes:
  On fanned: deliveries, their lanes and windows, the cursors.
]]
local fanned, lanes, open = unpack(KEYS, 1, 3)
local day, day_start_ms, lane_concurrency, tenant_prefix, delivery_prefix, lane_prefix, window_prefix,
  deliveries_prefix = unpack(ARGV, 1, 8)
local marks_from = 4
local owners_from = 10
local owners_to = 9 + ARGV[9]
local parts_from = owners_to + 1
-- End of the signature.
-- @include base/time
-- Of a subscription and of an owner; how long the index of a day and an idle window stay.
local OPEN_MAX, OWNER_OPEN_MAX, INDEX_MS, WINDOW_MS = 1000, 50000, 16 * 86400000, 40 * 86400000
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local owners, stale = {}, {'stale'}
for i = marks_from, #KEYS do
  local at = owners_from + 2 * (i - marks_from)
  local owner, mark = ARGV[at], ARGV[at + 1]
  if (redis.call('GET', KEYS[i]) or '') ~= mark then stale[#stale + 1] = owner end
  local closed = mark ~= '' and redis.call('HGET', tenant_prefix .. owner, 'status') == 'CLOSED'
  owners[#owners + 1] = {name = owner, closed = closed, open = tonumber(redis.call('HGET', open, owner)) or 0}
end
if #stale > 1 then return stale end

local windows, queued = {}, {}

-- Returns the window of a subscription, read once.
local function window_of(id, owner)
  if windows[id] then return windows[id] end
  local window = {key = window_prefix .. id, index = deliveries_prefix .. id .. ':' .. day, owner = owner,
    behind = {}, noted = {}, places = {}}
  local stored = redis.call('HMGET', window.key, 'open', 'queued')
  window.open, window.queued = tonumber(stored[1]) or 0, tonumber(stored[2]) or 0
  redis.call('ZCARD', window.index)
  windows[id] = window
  return window
end

-- Queues a delivery, or notes from where on the subscription is behind.
local function queue(source, at)
  local owner, id, epoch, delivery_id, lane, place, event_type, trace = owners[tonumber(ARGV[at])],
    unpack(ARGV, at + 1, at + 7)
  if owner.closed then return end
  local window = window_of(id, owner)
  local behind = window.behind[source]
  if behind == nil then
    behind = redis.call('HGET', window.key, 'behind ' .. source)
    window.noted[source] = behind
    -- It goes on when half of the room is free again.
    if window.open < OPEN_MAX / 2 and owner.open < OWNER_OPEN_MAX / 2 then behind = false end
  end
  if not behind and (window.open >= OPEN_MAX or owner.open >= OWNER_OPEN_MAX) then
    behind = place
    if not window.noted[source] then window.places['behind ' .. source] = place end
  end
  window.behind[source] = behind
  if behind then
    window.places['last ' .. source] = place
    return
  end
  if redis.call('EXISTS', delivery_prefix .. delivery_id) == 1 then return end
  redis.call('LLEN', lane_prefix .. lane)
  window.open, window.queued, owner.open = window.open + 1, window.queued + 1, owner.open + 1
  queued[#queued + 1] = {window = window, id = delivery_id, lane = lane, number = window.queued,
    fields = {'subscription', id, 'lane', lane, 'place', place, 'type', event_type, 'trace', trace, 'at_ms', now,
      'epoch', epoch}}
end

local reply, moved, at = {'fanned', 0}, {}, parts_from
while at <= #ARGV do
  local source, read, next, count = unpack(ARGV, at, at + 3)
  local stored = redis.call('HGET', fanned, source) or ''
  if stored == read then
    for pair = at + 4, at + 3 + count, 8 do queue(source, pair) end
    moved[#moved + 1], moved[#moved + 2], stored = source, next, next
  end
  reply[#reply + 1] = stored
  at = at + 4 + count
end
redis.call('ZCARD', lanes)

-- Effects: none can fail.
for _, delivery in ipairs(queued) do
  redis.call('HSET', delivery_prefix .. delivery.id, unpack(delivery.fields))
  local length = redis.call('RPUSH', lane_prefix .. delivery.lane, delivery.id)
  -- Otherwise those before it, which are in flight or are looked at, bring it.
  if length <= tonumber(lane_concurrency) then redis.call('ZADD', lanes, 'NX', now, delivery.lane) end
  redis.call('ZADD', delivery.window.index, now, ('%010d '):format(delivery.number) .. delivery.id)
end
for _, window in pairs(windows) do
  for field, place in pairs(window.places) do redis.call('HSET', window.key, field, place) end
  redis.call('HSET', window.key, 'open', window.open, 'queued', window.queued, 'owner', window.owner.name)
  redis.call('PEXPIRE', window.index, INDEX_MS)
  redis.call('PEXPIRE', window.key, WINDOW_MS)
end
for _, owner in ipairs(owners) do
  if owner.open > 0 then redis.call('HSET', open, owner.name, owner.open) end
end
if #moved > 0 then redis.call('HSET', fanned, unpack(moved)) end
reply[2] = #queued
return reply
