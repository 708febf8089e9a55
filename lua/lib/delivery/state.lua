--[[
state: reads subscriptions and deliveries, each once per call, and writes back what changed of them.

A lane is a queue of deliveries to a subscription, attempted in order: `<subscription>:<partition>:<tenant>` and
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
-- Reasons for which deliveries fail without a further attempt.
local TOO_OLD, LOST = 'The delivery is too old', 'Attempts were lost'
local NOT_ACTIVE, GONE = 'The subscription is not active', 'The subscription is gone'
-- How long a first attempt is postponed at most, with a margin.
local PUT_OFF_MS = 120000
-- How long ended deliveries are kept: 14 days. What is written is text where it can be, since numbers cost a conversion.
local ENDED_MS = '1209600000'

local function integer_text(number) return ('%d'):format(number) end

-- prefixes: of the names of keys: delivery, window, webhook, tenant, lane, mark. key: the last one read.
-- landed, claimed, claimed_lanes: claims that end, and new ones with their times and their lanes, which state_write writes all at
-- once.
local function state_new(now, prefixes)
  return {now = now, now_text = integer_text(now), prefixes = prefixes, subscriptions = {}, order = {}, owners = {},
    landed = {}, claimed = {}, claimed_lanes = {}, key = ''}
end

-- Runs a command that reads a key, and notes the key in case that raises.
local function state_read(state, command, key, ...)
  state.key = key
  return redis.call(command, key, ...)
end

-- Returns true and what read returns; or false, and the key that it failed to read with the error.
local function state_try(state, read, ...)
  local is_read, one, two = pcall(read, ...)
  if is_read then return true, one, two end
  return false, state.key .. ' ' .. (type(one) == 'table' and one.err or tostring(one)):gsub('%s+', ' ')
end

local STATUSES = {ACTIVE = true, PAUSED = true, DISABLED = true}

-- Returns why a record is not that of a subscription, or nil. A missing one is not damaged.
local function webhook_damage(webhook, tenant, status, epoch)
  if not tenant then return redis.call('EXISTS', webhook) == 1 and 'it names no owner' or nil end
  if not STATUSES[status] then return 'it has no status' end
  if epoch and not epoch:find('^%d+$') then return 'its epoch is no number' end
end

-- Returns the owner of subscriptions as it is now: whether it is closed, and the mark of its subscriptions.
local function state_owner(state, name)
  local known = state.owners[name]
  if known then return known end
  local prefixes = state.prefixes
  known = {name = name, is_closed = name ~= '' and state_read(state, 'HGET', prefixes.tenant .. name, 'status') == 'CLOSED',
    mark = prefixes.mark and state_read(state, 'GET', prefixes.mark .. name) or ''}
  state.owners[name] = known
  return known
end

-- Returns the subscription as it is now, with how many of its deliveries are in flight. Changes of its window are counted:
-- ended, flown (in flight or not any more, as retried), retried, replays_ended. triggered, succeeded: whether the present time is
-- written to its record as that of a claim, and of a success. damage: why its record cannot be read; its fields are not valid then.
local function state_subscription(state, id)
  local known = state.subscriptions[id]
  if known then return known end
  local webhook, window = state.prefixes.webhook .. id, state.prefixes.window .. id
  local stored = state_read(state, 'HMGET', webhook, 'tenant', 'status', 'epoch', 'consecutive_failures')
  local flying = state_read(state, 'HGET', window, 'flying')
  local owner = state_owner(state, stored[1] or redis.call('HGET', window, 'owner') or '')
  -- Sixteen fields: Lua lays out the memory of more twice.
  known = {id = id, webhook = webhook, window = window, owner = owner, exists = stored[1] and true or false,
    active = stored[2] == 'ACTIVE' and not owner.is_closed, epoch = stored[3] or '0',
    failures = stored[4] and stored[4] ~= '0' and tonumber(stored[4]) or 0, flying = tonumber(flying) or 0,
    ended = 0, flown = 0, retried = 0, replays_ended = 0, triggered = false, succeeded = false,
    damage = webhook_damage(webhook, stored[1], stored[2], stored[3])}
  state.subscriptions[id], state.order[#state.order + 1] = known, known
  return known
end

-- Returns after how many failures in a row the subscription is disabled, and how long these must last; since when it fails, a
-- failure now included; and the version of its record.
local function state_failing(state, subscription)
  local stored = redis.call('HMGET', subscription.webhook, 'disable_after_failures', 'disable_after_seconds', 'failing_since_ms',
    'version')
  -- The time is of earlier failures where there are none in a row. A later one dates from before the clock was set back.
  local since_ms = subscription.failures > 0 and tonumber(stored[3]) or state.now
  return tonumber(stored[1]) or 10, (tonumber(stored[2]) or 0) * 1000, math.min(since_ms, state.now), tonumber(stored[4]) or 0
end

-- Raises where state_wait could not write.
local function state_can_wait(state, subscription)
  state_read(state, 'ZCARD', state.prefixes.lane .. subscription.id .. ':retries')
end

-- Returns the lane of a delivery whose record names none: that of its subscription for the log of the event.
local function lane_of(subscription, place)
  local partition, tenant = place:match('^(%S+) (%S+)')
  return partition and subscription .. ':' .. partition .. ':' .. tenant or ''
end

local function is_replayed(lane) return lane:find('^[^:]*:replay:') ~= nil end

-- Returns the record of a delivery that is open; nil where there is none, and whether it has ended.
local function state_delivery(state, id)
  local key = state.prefixes.delivery .. id
  local stored = state_read(state, 'HMGET', key, 'subscription', 'lane', 'at_ms', 'epoch', 'attempts', 'lost', 'claim', 'status',
    'place', 'failures', 'not_before_ms')
  if stored[8] == 'SUCCESS' or stored[8] == 'FAILED' then return nil, true end
  if not stored[1] then return nil, false end
  return {id = id, key = key, subscription = stored[1], lane = stored[2] or lane_of(stored[1], stored[9] or ''),
    at_ms = tonumber(stored[3]) or 0, epoch = stored[4] or '0', attempts = tonumber(stored[5]) or 0,
    lost = tonumber(stored[6]) or 0, claim = stored[7] ~= '' and stored[7], is_retry = stored[8] == 'RETRYING',
    place = stored[9] or '', failures = tonumber(stored[10]) or 0, not_before_ms = tonumber(stored[11])}
end

-- Returns the record of one that waits in this lane for its first attempt, and whether that is under way; nil where there is none,
-- or its lane cannot be read.
local function state_waiting(state, subscription, lane, id)
  local key = state.prefixes.delivery .. id
  local stored = state_read(state, 'HMGET', key, 'at_ms', 'epoch', 'place', 'attempts', 'not_before_ms')
  local place, attempts, lost, claim = stored[3] or '', stored[4] and tonumber(stored[4]) or 0, 0, false
  local own = is_replayed(lane) and redis.call('HGET', key, 'lane') or lane_of(subscription, place)
  if not stored[1] or own ~= lane then return nil end
  if attempts > 0 then
    local earlier = redis.call('HMGET', key, 'lost', 'claim')
    lost, claim = tonumber(earlier[1]) or 0, earlier[2]
  end
  return {id = id, key = key, lane = lane, at_ms = tonumber(stored[1]) or 0, epoch = stored[2] or '0', place = place,
    attempts = attempts, lost = lost, not_before_ms = tonumber(stored[5])}, claim and true or false
end

-- Returns whether its subscription has not changed since the delivery was queued. With a damaged record it counts as unchanged.
local function state_is_current(delivery, subscription)
  return subscription.damage ~= nil or subscription.active and delivery.epoch == subscription.epoch
end

-- Returns why a delivery fails without an attempt, or nil. stale_before_ms: what was queued before is too old; nil
-- while the clock is in doubt.
local function state_hopeless(delivery, subscription, stale_before_ms)
  if not subscription.exists then return GONE end
  if not state_is_current(delivery, subscription) then return NOT_ACTIVE end
  if stale_before_ms and delivery.at_ms < stale_before_ms then return TOO_OLD end
  if delivery.lost >= LOST_MAX then return LOST end
end

-- Returns until when a first attempt is postponed, or nil. A time further ahead than the maximum is from before the clock went back.
local function state_put_off(state, delivery)
  local until_ms = delivery.not_before_ms
  return until_ms and until_ms > state.now and until_ms <= state.now + PUT_OFF_MS and until_ms or nil
end

-- Returns whether one more may be in flight, besides those that are planned. limit: how many at most.
local function state_has_room(subscription, is_retry, limit)
  local planned = subscription.planned or 0
  if subscription.flying + planned >= math.min(FLYING_MAX, limit) then return false end
  if not is_retry then return true end
  local retrying = (tonumber(redis.call('HGET', subscription.window, 'retrying')) or 0) + subscription.retried
  return retrying + planned < RETRYING_MAX
end

-- Returns how many first attempts of a lane may be in flight at once.
local function state_concurrency(is_replay, lane_concurrency)
  return math.min(tonumber(lane_concurrency), is_replay and REPLAY_FLYING_MAX or FLYING_MAX)
end

-- The effects.

-- Takes a delivery out of its lane.
local function state_leave_lane(state, delivery, subscription)
  if delivery.is_retry then
    redis.call('ZREM', state.prefixes.lane .. subscription.id .. ':retries', delivery.id)
  elseif not delivery.has_damaged_lane then
    redis.call('LREM', state.prefixes.lane .. delivery.lane, '1', delivery.id)
  end
end

-- Counts a delivery that is not open any more.
local function state_count_end(delivery, subscription)
  subscription.ended = subscription.ended + 1
  if is_replayed(delivery.lane) then subscription.replays_ended = subscription.replays_ended + 1 end
end

-- Ends a delivery whose next time was removed. Its claim is blank from here on. Behind status: names and values.
local function state_end(state, delivery, subscription, status, ...)
  redis.call('HSET', delivery.key, 'status', status, 'completed_at_ms', state.now_text, 'claim', '', ...)
  redis.call('PEXPIRE', delivery.key, ENDED_MS)
  state_count_end(delivery, subscription)
end

-- Counts a delivery that is in flight from here on, or with -1 not any more.
local function state_fly(delivery, subscription, count)
  subscription.flying, subscription.flown = subscription.flying + count, subscription.flown + count
  if delivery.is_retry then subscription.retried = subscription.retried + count end
end

-- Takes a delivery out of flight.
local function state_land(state, delivery, subscription)
  state.landed[#state.landed + 1] = delivery.id
  state_fly(delivery, subscription, -1)
end

-- Puts a delivery among the retries until a time.
local function state_wait(state, lanes, delivery, subscription, due_ms)
  local lane = subscription.id .. ':retries'
  redis.call('ZADD', state.prefixes.lane .. lane, due_ms, delivery.id)
  redis.call('ZADD', lanes, 'LT', due_ms, lane)
end

-- Adds to a count of a window. A window that was damaged has begun anew, and does not count what was open before; a dispatcher of
-- an earlier release has not counted replays.
local function window_add(window, name, count)
  if count == 0 then return end
  local sum = redis.pcall('HINCRBY', window, name, count)
  if type(sum) ~= 'number' or sum < 0 then redis.call('HSET', window, name, '0') end
end

-- Adds to the number of an owner's open deliveries. One that is no number is 0.
local function open_add(open, owner, count)
  local sum = redis.pcall('HINCRBY', open, owner, count)
  if type(sum) ~= 'number' or sum <= 0 then redis.call('HDEL', open, owner) end
end

-- Writes the window of a subscription, and the times of its record.
local function state_write_subscription(state, subscription)
  local webhook, window, now = subscription.webhook, subscription.window, state.now_text
  if subscription.triggered and subscription.succeeded then
    redis.call('HSET', webhook, 'last_triggered_at_ms', now, 'last_success_at_ms', now)
  elseif subscription.triggered then
    redis.call('HSET', webhook, 'last_triggered_at_ms', now)
  elseif subscription.succeeded then
    redis.call('HSET', webhook, 'last_success_at_ms', now)
  end
  window_add(window, 'open', -subscription.ended)
  if not subscription.exists and (tonumber(redis.call('HGET', window, 'open')) or 0) <= 0 then
    return redis.call('DEL', window)
  end
  window_add(window, 'flying', subscription.flown)
  window_add(window, 'retrying', subscription.retried)
  window_add(window, 'replaying', -subscription.replays_ended)
end

-- Writes claims, windows, and times of the records. open: how many deliveries of each owner are open.
local function state_write(state, claims, claimed_lanes, open)
  -- One that went back to its lane may have been claimed again.
  if #state.landed > 0 then
    redis.call('ZREM', claims, unpack(state.landed))
    -- A dispatcher of an earlier release leaves the lanes of the claims that it ends.
    if #state.claimed == 0 and redis.call('ZCARD', claims) == 0 then
      redis.call('DEL', claimed_lanes)
    else
      redis.call('HDEL', claimed_lanes, unpack(state.landed))
    end
  end
  if #state.claimed > 0 then
    redis.call('ZADD', claims, unpack(state.claimed))
    redis.call('HSET', claimed_lanes, unpack(state.claimed_lanes))
  end
  local ended = {}
  for _, subscription in ipairs(state.order) do
    local owner = subscription.owner.name
    ended[owner] = (ended[owner] or 0) + subscription.ended
    state_write_subscription(state, subscription)
  end
  for owner, count in pairs(ended) do
    if count > 0 then open_add(open, owner, -count) end
  end
end
