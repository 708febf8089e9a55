--[[
book: what the scripts of deliveries read of a subscription once per call, and how they write it back.

A lane is what deliveries to a subscription are attempted in order in: `<subscription>:<partition>:<tenant>` and
`<subscription>:replay:<replay>` are lists of those that wait for the end of their first attempt, `<subscription>:retries`
is the sorted set of those that wait for another one. The window of a subscription counts its deliveries: those that are
open (not ended), those in flight, of these the retries, and the open ones of replays.
]]

-- The most that may be in flight to one subscription, and how many of these may be retries.
local FLYING_MAX, RETRYING_MAX = 64, 16
-- First attempts of a replay that may be in flight, so that live events find room beside them.
local REPLAY_FLYING_MAX = 16
-- Attempts in a row that may be lost with their dispatcher.
local LOST_MAX = 5
-- Why deliveries fail that nobody attempts any more.
local TOO_OLD, LOST = 'The delivery is too old', 'Attempts were lost'
-- How long ended deliveries are kept: 14 days. What is written is text where it can be, since numbers cost a conversion.
local ENDED_MS = '1209600000'

local function integer_text(number) return ('%d'):format(number) end

-- What a window counts.
local WINDOW_COUNTS = {'open', 'flying', 'retrying', 'replaying'}

-- prefixes: what the names of keys start with: delivery, window, webhook, tenant, lane, mark. key: the one that was read last.
local function book_new(now, prefixes)
  return {now = now, now_text = integer_text(now), prefixes = prefixes, subscriptions = {}, order = {}, key = ''}
end

-- Runs a command that reads a key, which is known where that raises.
local function book_read(book, command, key, ...)
  book.key = key
  return redis.call(command, key, ...)
end

-- Returns what read returns, or false and the key that holds something else than it should and why.
local function book_try(book, read, ...)
  local is_read, one, two = pcall(read, ...)
  if is_read then return true, one, two end
  return false, book.key .. ' ' .. (type(one) == 'table' and one.err or tostring(one)):gsub('%s+', ' ')
end

local STATUSES = {ACTIVE = true, PAUSED = true, DISABLED = true}

-- Returns why a record is none of a subscription, or nil. One that is gone is no damage.
local function webhook_damage(webhook, tenant, status, epoch)
  if not tenant then return redis.call('EXISTS', webhook) == 1 and 'it names no owner' or nil end
  if not STATUSES[status] then return 'it has no status' end
  if epoch and not epoch:find('^%d+$') then return 'its epoch is no number' end
end

-- Returns the subscription as it is now, with its window. damage: why its record cannot be read; what it says is not so then.
local function book_subscription(book, id)
  local known = book.subscriptions[id]
  if known then return known end
  local prefixes = book.prefixes
  local webhook, window = prefixes.webhook .. id, prefixes.window .. id
  local stored = book_read(book, 'HMGET', webhook, 'tenant', 'status', 'epoch', 'consecutive_failures')
  local counts = book_read(book, 'HMGET', window, unpack(WINDOW_COUNTS))
  local owner = stored[1] or redis.call('HGET', window, 'owner') or ''
  local closed = owner ~= '' and book_read(book, 'HGET', prefixes.tenant .. owner, 'status') == 'CLOSED'
  local mark = prefixes.mark and book_read(book, 'GET', prefixes.mark .. owner) or ''
  known = {id = id, webhook = webhook, window = window, owner = owner, mark = mark, exists = stored[1] and true,
    active = stored[2] == 'ACTIVE' and not closed, epoch = tonumber(stored[3]) or 0, open = tonumber(counts[1]) or 0,
    flying = tonumber(counts[2]) or 0, retrying = tonumber(counts[3]) or 0, replaying = tonumber(counts[4]) or 0,
    failures = tonumber(stored[4]) or 0, counts = counts, ended = 0, stamps = {},
    damage = webhook_damage(webhook, stored[1], stored[2], stored[3])}
  book.subscriptions[id], book.order[#book.order + 1] = known, known
  return known
end

-- Returns after how many failures in a row the subscription is disabled, and the version of its record.
local function book_failures_max(subscription)
  local stored = redis.call('HMGET', subscription.webhook, 'disable_after_failures', 'version')
  return tonumber(stored[1]) or 10, tonumber(stored[2]) or 0
end

-- Raises where book_wait could not write.
local function book_can_wait(book, subscription)
  book_read(book, 'ZCARD', book.prefixes.lane .. subscription.id .. ':retries')
end

-- Returns the lane of a delivery whose record names none: that of its subscription for the log of the event.
local function lane_of(subscription, place)
  local partition, tenant = place:match('^(%S+) (%S+)')
  return partition and subscription .. ':' .. partition .. ':' .. tenant or ''
end

-- Returns the record of a delivery that is open; nil where there is none.
local function book_delivery(book, id)
  local stored = book_read(book, 'HMGET', book.prefixes.delivery .. id, 'subscription', 'lane', 'at_ms', 'epoch', 'attempts',
    'lost', 'claim', 'status', 'place', 'trace', 'failures')
  if not stored[1] or stored[8] == 'SUCCESS' or stored[8] == 'FAILED' then return nil end
  return {id = id, key = book.prefixes.delivery .. id, subscription = stored[1],
    lane = stored[2] or lane_of(stored[1], stored[9] or ''),
    at_ms = tonumber(stored[3]) or 0, epoch = tonumber(stored[4]) or 0, attempts = tonumber(stored[5]) or 0,
    lost = tonumber(stored[6]) or 0, claim = stored[7] ~= '' and stored[7], is_retry = stored[8] == 'RETRYING',
    place = stored[9] or '', trace = stored[10] or '', failures = tonumber(stored[11]) or 0}
end

-- Returns the record of one that waits behind another in its lane; nil where there is none, or its lane cannot be read.
local function book_successor(book, delivery, id)
  local key = book.prefixes.delivery .. id
  local stored = book_read(book, 'HMGET', key, 'at_ms', 'epoch', 'attempts', 'lost', 'claim', 'place', 'trace', 'lane')
  if not stored[1] or (stored[8] or lane_of(delivery.subscription, stored[6] or '')) ~= delivery.lane then return nil end
  return {id = id, key = key, subscription = delivery.subscription, lane = delivery.lane, at_ms = tonumber(stored[1]) or 0,
    epoch = tonumber(stored[2]) or 0, attempts = tonumber(stored[3]) or 0, lost = tonumber(stored[4]) or 0,
    claim = stored[5], place = stored[6] or '', trace = stored[7] or '', failures = 0}
end

-- Returns whether its subscription still is as it was when the delivery was queued. A damaged record does not say that it is not.
local function book_is_current(delivery, subscription)
  return subscription.damage ~= nil or subscription.active and delivery.epoch == subscription.epoch
end

-- Returns why a delivery that is to be attempted fails instead, or nil. stale_before_ms: what was queued before is too old, '' while
-- the clock is doubted.
local function book_hopeless(delivery, subscription, stale_before_ms)
  if not subscription.exists then return 'The subscription is gone' end
  if not book_is_current(delivery, subscription) then return 'The subscription is not active' end
  if stale_before_ms ~= '' and delivery.at_ms < tonumber(stale_before_ms) then return TOO_OLD end
  if delivery.lost >= LOST_MAX then return LOST end
end

-- Returns whether one more may be in flight, besides those that are planned. limit: how many at most.
local function book_has_room(subscription, is_retry, limit)
  local planned = subscription.planned or 0
  return subscription.flying + planned < math.min(FLYING_MAX, limit)
    and (not is_retry or subscription.retrying + planned < RETRYING_MAX)
end

local function is_replayed(lane) return lane:find('^[^:]*:replay:') ~= nil end

-- Returns how many first attempts of a lane may be in flight at once.
local function book_concurrency(lane, lane_concurrency)
  return math.min(tonumber(lane_concurrency), is_replayed(lane) and REPLAY_FLYING_MAX or FLYING_MAX)
end

-- The effects.

-- Takes a delivery out of its lane.
local function book_leave_lane(book, delivery, subscription)
  if delivery.is_retry then
    redis.call('ZREM', book.prefixes.lane .. subscription.id .. ':retries', delivery.id)
  elseif not delivery.is_lost_to_lane then
    redis.call('LREM', book.prefixes.lane .. delivery.lane, '1', delivery.id)
  end
end

-- Has the present time written to the subscription's record, with its window. Only for one that exists.
local function book_stamp(book, subscription, name)
  local stamps = subscription.stamps
  stamps[#stamps + 1], stamps[#stamps + 2] = name, book.now_text
end

-- Ends a delivery whose next time was removed. Its claim is blank from here on. fields: names and values.
local function book_end(book, delivery, subscription, status, fields)
  redis.call('HSET', delivery.key, 'status', status, 'completed_at_ms', book.now_text, 'claim', '', unpack(fields))
  redis.call('PEXPIRE', delivery.key, ENDED_MS)
  subscription.open, subscription.ended = subscription.open - 1, subscription.ended + 1
  if is_replayed(delivery.lane) then subscription.replaying = math.max(subscription.replaying - 1, 0) end
end

-- Takes a delivery out of flight.
local function book_land(claims, delivery, subscription)
  redis.call('ZREM', claims, delivery.id)
  subscription.flying = subscription.flying - 1
  if delivery.is_retry then subscription.retrying = subscription.retrying - 1 end
end

-- Lets a delivery that waits for a further attempt wait until then.
local function book_wait(book, lanes, delivery, subscription, due_ms)
  local lane = subscription.id .. ':retries'
  redis.call('ZADD', book.prefixes.lane .. lane, due_ms, delivery.id)
  redis.call('ZADD', lanes, 'LT', due_ms, lane)
end

-- Writes the windows, and times of the records. open: how many deliveries of each owner are open.
local function book_write(book, open)
  for _, subscription in ipairs(book.order) do
    if subscription.ended > 0 and redis.call('HINCRBY', open, subscription.owner, -subscription.ended) <= 0 then
      redis.call('HDEL', open, subscription.owner)
    end
    if #subscription.stamps > 0 then redis.call('HSET', subscription.webhook, unpack(subscription.stamps)) end
    if subscription.open <= 0 and not subscription.exists then
      redis.call('DEL', subscription.window)
    elseif subscription.ended > 0 or subscription.touched then
      local changed = {}
      for i, name in ipairs(WINDOW_COUNTS) do
        -- A window that was damaged has begun anew, and does not count what was open before.
        local text = integer_text(math.max(subscription[name], 0))
        if text ~= subscription.counts[i] then changed[#changed + 1], changed[#changed + 2] = name, text end
      end
      if #changed > 0 then redis.call('HSET', subscription.window, unpack(changed)) end
    end
  end
end
