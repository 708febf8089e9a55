#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/catch_up.rs.
Queues events that a subscription missed while it was behind in an outbox, and moves its place there, both or neither.
Where the place is not as the caller read it, or there is no room for all of them, nothing is queued.

A delivery that exists already is passed over. When the place has reached the cursor of the outbox, the subscription has
caught up. One that is not active forgets what it missed. skipped: how many events were too old; place: '' where it is
not behind.

KEYS[1]  write  fanned             hash    fanned
KEYS[2]  write  lanes              zset    lanes
KEYS[3]  write  open               hash    open
KEYS[4]  write  behind_index       zset    behind
KEYS[5]  write  queued_deliveries  hash    queued
KEYS[6]  read   webhooks_mark      string  webhooksmark:<owner>
KEYS[7]  read   tenant             hash    tenant:<owner>
built    write                     hash    delivery:<delivery_id>
built    write                     list    lane:<lane>
built    write                     hash    window:<subscription_id>
built    write                     zset    deliveries:<subscription_id>:<day>

ARGV[1]     delivery_prefix    prefix delivery:
ARGV[2]     lane_prefix        prefix lane:
ARGV[3]     window_prefix      prefix window:
ARGV[4]     deliveries_prefix  prefix deliveries:
ARGV[5]     day                yyyymmdd
ARGV[6]     day_start_ms       int64
ARGV[7]     lane_concurrency   int64               First attempts of a lane that may be in flight at once.
ARGV[8]     owner              text
ARGV[9]     mark               text                Of the owner's subscriptions, as the caller remembers them.
ARGV[10]    subscription_id    text
ARGV[11]    epoch              int64 or ''         '' where it is not active.
ARGV[12]    stale_ms           int64 or ''
    The age at which what it missed is not for it any more; '' while the clock is doubted.
ARGV[13]    source             text                The field of the cursor of the outbox.
ARGV[14]    read               text                Its place there as it was read.
ARGV[15]    next               text                Its place to be.
ARGV[16]    too_old            int64
    Events between these that are too old, of the hour in which some are not.
ARGV[17..]  deliveries         to the end          Id, lane, place of the event, type of the event and trace of each.

Replies, the first that applies:
  clock now_ms | stale | caught_up queued skipped place
Writes:
  On caught_up: deliveries, their lanes; the window.
]]
local fanned, lanes, open, behind_index, queued_deliveries, webhooks_mark, tenant = unpack(KEYS)
local delivery_prefix, lane_prefix, window_prefix, deliveries_prefix, day, day_start_ms, lane_concurrency, owner,
  mark, subscription_id, epoch, stale_ms, source, read, next, too_old = unpack(ARGV, 1, 16)
local deliveries_from = 17
-- End of the signature.
-- @include base/time, base/slot, delivery/queue
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
slot_check(lanes)
if queue_mark(webhooks_mark) ~= mark then return {'stale'} end
local is_closed = mark ~= '' and redis.call('HGET', tenant, 'status') == 'CLOSED'
local queue = queue_new(now, day, lane_concurrency,
  {delivery = delivery_prefix, lane = lane_prefix, window = window_prefix, deliveries = deliveries_prefix})
local window = queue_window(queue, subscription_id, epoch,
  {name = owner, open = tonumber(redis.call('HGET', open, owner)) or 0})
-- The fan-out recreates it, with a place in its outbox.
if window.damage then return redis.error_reply(window.damage) end
-- It is in the index, even where its window is gone.
window.was_behind = true
if is_closed or epoch == '' then window_forget(window) end
local oldest_ms = stale_ms ~= '' and now - stale_ms or 0
local skipped_before = tonumber(redis.call('HGET', window.key, 'skipped')) or 0
local place, skipped = window_behind(window, source), 0

-- Events that are too old are dropped: those of past hours, and of the next hour those that the caller found.
local function skip_old()
  local oldest
  for hour, count in pairs(window.missed) do
    if (hour + 1) * HOUR_MS <= oldest_ms then
      skipped, window.missed[hour] = skipped + count, nil
    elseif not oldest or hour < oldest then
      oldest = hour
    end
  end
  skipped = skipped + too_old
  if oldest then window_miss(window, oldest, -too_old) end
end

local count = (#ARGV - deliveries_from + 1) / 5
if place and place == read and (count == 0 or window_has_room(window, count)) then
  skip_old()
  for at = deliveries_from, #ARGV, 5 do
    local id, lane, event, event_type, trace = unpack(ARGV, at, at + 4)
    if queue_add(queue, window, id, lane, {'place', event, 'type', event_type, 'trace', trace}) then
      window_miss(window, hour_of(event), -1)
    end
  end
  place = not place_reaches(next, redis.call('HGET', fanned, source) or '') and next
  window_move(window, source, place)
end
redis.call('ZCARD', lanes)
redis.call('ZCARD', behind_index)

-- Effects: none can fail.
queue_write(queue, lanes, behind_index, open, queued_deliveries)
if skipped > 0 then redis.call('HSET', window.key, 'skipped', skipped_before + skipped) end
return {'caught_up', #queue.deliveries, skipped, place or ''}
