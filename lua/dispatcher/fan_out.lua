#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/fan_out.rs.
Queues the deliveries of some events of outboxes, and moves the cursors of these, both or neither. Where a cursor is not
as the caller read it, another has followed that outbox meanwhile. A caller that caches an owner's subscriptions proves
by their mark that these are still the same; if they are not, nothing is written.

Where a subscription was behind and has stopped being active since, the call only removes its places, and is repeated:
there may be a place for each outbox.

A delivery that exists already is skipped. Where a subscription or its owner has as many open as may be, or Redis is
full, the subscription falls behind: only the place is kept from which on its events are queued later. So does one
without an epoch, whose record cannot be read, and one without a lane, whose tenant has had its share of the pass.
queued: how many were queued.

KEYS[1]    write  fanned             hash    fanned
KEYS[2]    write  lanes              zset    lanes
KEYS[3]    write  open               hash    open
KEYS[4]    write  behind_index       zset    behind
KEYS[5]    write  queued_deliveries  hash    queued
KEYS[6..]  read   marks              string  webhooksmark:<owner>
built      read                      hash    tenant:<tenant>
built      write                     hash    delivery:<delivery_id>
built      write                     list    lane:<lane>
built      write                     hash    window:<subscription_id>
built      write                     zset    deliveries:<subscription_id>:<day>

ARGV[1]                tenant_prefix      prefix tenant:
ARGV[2]                delivery_prefix    prefix delivery:
ARGV[3]                lane_prefix        prefix lane:
ARGV[4]                window_prefix      prefix window:
ARGV[5]                deliveries_prefix  prefix deliveries:
ARGV[6]                day                yyyymmdd
ARGV[7]                day_start_ms       int64
ARGV[8]                lane_concurrency   int64               First attempts of a lane that may be in flight at once.
ARGV[9]                is_full            1 or 0              Whether Redis has no memory for deliveries.
ARGV[10]               owners             n, then n more
    Owners and the marks of their subscriptions, in the order of the keys.
ARGV[owners_to + 1..]  parts              to the end
    In order: the field of the cursor; the cursor as it was read or ''; the cursor to be; a number of places, and in
    these for each delivery the number of its owner, from 1; its subscription and that one's epoch; its id, lane or '',
    place of the event, type of the event and trace.

Replies, the first that applies:
  clock now_ms | stale owners | forgot | fanned queued damaged cursors
Writes:
  On forgot: a window. On fanned: deliveries, their lanes and windows, the cursors.
]]
local fanned, lanes, open, behind_index, queued_deliveries = unpack(KEYS, 1, 5)
local tenant_prefix, delivery_prefix, lane_prefix, window_prefix, deliveries_prefix, day, day_start_ms,
  lane_concurrency, is_full = unpack(ARGV, 1, 9)
local marks_from = 6
local owners_from = 11
local owners_to = 10 + ARGV[10]
local parts_from = owners_to + 1
-- End of the signature.
-- @include base/time, base/slot, delivery/queue
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
slot_check(lanes)
local owners, stale = {}, {'stale'}
for i = marks_from, #KEYS do
  local at = owners_from + 2 * (i - marks_from)
  local owner, mark = ARGV[at], ARGV[at + 1]
  if queue_mark(KEYS[i]) ~= mark then stale[#stale + 1] = owner end
  -- Subscriptions of a tenant with a damaged record fall behind until it is repaired.
  local status = mark ~= '' and redis.pcall('HGET', tenant_prefix .. owner, 'status')
  owners[#owners + 1] = {name = owner, closed = status == 'CLOSED', is_damaged = type(status) == 'table',
    open = tonumber(redis.call('HGET', open, owner)) or 0}
end
if #stale > 1 then return stale end
local queue = queue_new(now, day, lane_concurrency,
  {delivery = delivery_prefix, lane = lane_prefix, window = window_prefix, deliveries = deliveries_prefix})

-- Returns the cursor as the caller has read it. One that cannot be read is '', and the outbox is followed from its beginning.
local function cursor_read(field)
  local found = redis.call('HGET', fanned, field)
  local is_cursor = found and (found:find('^%d+%-%d+$') or found:find('^%d+%-%d+ %d+ %S*$'))
  return is_cursor and found or ''
end

local damaged = {}
local function note_damage(lane, why)
  damaged[#damaged + 1] = lane_prefix .. lane .. ' ' .. (type(why) == 'table' and why.err or tostring(why)):gsub('%s+', ' ')
end

-- Returns a place a day before: older events are not fetched.
local function day_before(place) return ('%d-0'):format(math.max((tonumber(place:match('^%d+')) or 0) - 86400000, 0)) end

-- Returns the place from which a subscription that falls behind now fetches events later. from: the cursor.
local function place_to_keep(window, from)
  -- The places were in the damaged window. Queued deliveries are skipped.
  if window.damage and redis.call('ZSCORE', behind_index, window.id) then return day_before(from) end
  return from
end

-- Queues a delivery, unless its subscription is behind or falls behind now. from: the place behind which these lie. Of a
-- subscription without an epoch only its place is kept: its repaired record will say whether the event is for it. Returns a window
-- whose places belong to an earlier epoch.
local function queue_or_miss(source, from, at)
  local owner, id, epoch, delivery_id, lane, place, event_type, trace = owners[tonumber(ARGV[at])],
    unpack(ARGV, at + 1, at + 7)
  if owner.closed then return end
  local window = queue_window(queue, id, epoch, owner)
  if window.gone then return window end
  local behind = window_behind(window, source)
  if window.damage and not window.is_noted then
    window.is_noted = true
    damaged[#damaged + 1] = window.key .. ' ' .. window.damage:gsub('%s+', ' ') .. ' (begun anew)'
  end
  local is_queued = lane ~= '' and epoch ~= '' and is_full ~= '1' and not window.damage and not owner.is_damaged
  if not behind and is_queued and window_has_room(window, 1) then
    local fields = {'place', place, 'type', event_type, 'trace', trace}
    local is_added, why = pcall(queue_add, queue, window, delivery_id, lane, fields)
    if is_added then return end
    -- A key of the lane has another type: the subscription gets the event when it is repaired.
    note_damage(lane, why)
  end
  -- An outbox that is followed again lies before the place.
  if window.read[source] ~= from and not (behind and place_reaches(from, behind)) then
    window_move(window, source, place_to_keep(window, from))
  end
  window.read[source] = from
  if epoch ~= '' then window_miss(window, hour_of(place), 1) end
end

local reply, cursors, at = {'fanned', 0, ''}, {}, parts_from
while at <= #ARGV do
  local source, read, next, places = unpack(ARGV, at, at + 3)
  local found = cursor_read(source)
  if found == read then
    for delivery = at + 4, at + 3 + places, 8 do
      local is_done, why = pcall(queue_or_miss, source, read == '' and '0-0' or read, delivery)
      if not is_done then
        note_damage(ARGV[delivery + 4], why)
      elseif why then
        redis.call('ZCARD', behind_index)
        -- Effects: nothing else, since there may be a place for each of 1,024 outboxes.
        window_write(queue, why, behind_index, open)
        return {'forgot'}
      end
    end
    cursors[#cursors + 1], cursors[#cursors + 2] = source, next
  end
  reply[#reply + 1] = found == read and next or found
  at = at + 4 + places
end
redis.call('ZCARD', lanes)
redis.call('ZCARD', behind_index)

-- Effects: none can fail.
queue_write(queue, lanes, behind_index, open, queued_deliveries)
if #cursors > 0 then redis.call('HSET', fanned, unpack(cursors)) end
reply[2], reply[3] = #queue.deliveries, table.concat(damaged, '\n')
return reply
