#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/deliveries.rs.
Claims deliveries that may be attempted now, and ends those that can only fail: for their subscription, their age or
attempts that were lost.

more: whether it did not look at everything. ended: reasons and ids of the deliveries that it ended: too_old;
subscription_inactive; subscription_not_found; attempts_lost; damaged, whose records are gone or do not say where the
events lie. damaged: keys of another type, a line each with why; each is of a lane that waits.

KEYS[1]  read   lease          hash    lease
KEYS[2]  write  lanes          zset    lanes
KEYS[3]  write  claims         zset    claims
KEYS[4]  write  claimed_lanes  hash    claimedlanes
KEYS[5]  write  open           hash    open
built    read                  hash    tenant:<tenant>
built    read                  string  webhooksmark:<owner>
built    write                 hash    delivery:<delivery_id>
built    write                 list    lane:<lane>
built    write                 hash    window:<subscription_id>
built    write                 hash    webhook:<subscription_id>

ARGV[1]   tenant_prefix         prefix tenant:
ARGV[2]   webhooks_mark_prefix  prefix webhooksmark:
ARGV[3]   delivery_prefix       prefix delivery:
ARGV[4]   lane_prefix           prefix lane:
ARGV[5]   window_prefix         prefix window:
ARGV[6]   webhook_prefix        prefix webhook:
ARGV[7]   fencing_token         int64
ARGV[8]   dispatcher            text                  A name without `:`.
ARGV[9]   claim_ms              int64
ARGV[10]  most                  int64                 How many at most.
ARGV[11]  lane_concurrency      int64                 First attempts of a lane that may be in flight at once.
ARGV[12]  busy_owners           text
    Owners with much in flight, blanks between: each with a colon and how many of one subscription may be.
ARGV[13]  stale_before_ms       int64 or ''
    Deliveries queued before are no longer attempted; '' while the clock is in doubt.

Replies, the first that applies:
  fenced | taken more ended damaged claims
Writes:
  On taken: deliveries, their claims, lanes and windows; when the subscription was triggered last.
]]
local lease, lanes, claims, claimed_lanes, open = unpack(KEYS)
local tenant_prefix, webhooks_mark_prefix, delivery_prefix, lane_prefix, window_prefix, webhook_prefix, fencing_token,
  dispatcher, claim_ms, most, lane_concurrency, busy_owners, stale_before_ms = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/slot, delivery/state, delivery/claim
-- Lanes of one call; deliveries of a lane that may end before one is found that can be attempted; when a lane whose
-- subscription has as many in flight as it may have is looked at again, and one whose owner has.
local LANES, HOPELESS, AGAIN_MS, BUSY_MS = 32, 8, 200, 1000
-- When a lane is looked at again that has a key of another type.
local DAMAGED_MS = 60000
-- Why a delivery with a damaged record fails.
local DAMAGED = 'The delivery is damaged'
local REASONS = {[TOO_OLD] = 'too_old', [NOT_ACTIVE] = 'subscription_inactive', [GONE] = 'subscription_not_found',
  [LOST] = 'attempts_lost', [DAMAGED] = 'damaged'}
-- Deliveries that one call reads, and ends, about.
local READS, ENDS = 128, 32
local now = now_ms()
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
slot_check(lanes)
local state = state_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix, mark = webhooks_mark_prefix})
local claim = {dispatcher = dispatcher, claim_ms = tonumber(claim_ms)}
local busy, stale_ms = {}, tonumber(stale_before_ms)
for owner, count in busy_owners:gmatch('(%S+):(%d+)') do busy[owner] = tonumber(count) end
local damaged = {}
local room, plan, looked_at, reads, spare = tonumber(most), {}, {}, 0, ENDS

-- Returns the deliveries of a lane that are looked at, whether there may be more, and when the retries among them are due.
-- ends: also those that are not due yet.
local function heads(lane, concurrency, is_retries, ends)
  local key, count = lane_prefix .. lane, concurrency + HOPELESS
  if not is_retries then
    local ids = state_read(state, 'LRANGE', key, 0, count - 1)
    return ids, #ids == count, {}
  end
  local found = state_read(state, 'ZRANGEBYSCORE', key, '-inf', ends and '+inf' or now, 'WITHSCORES', 'LIMIT', 0, count)
  local ids, due_ms = {}, {}
  for i = 1, #found, 2 do ids[#ids + 1], due_ms[found[i]] = found[i], tonumber(found[i + 1]) end
  return ids, #ids == count, due_ms
end

-- Returns a delivery that ends because its record is gone or names no subscription.
local function unrecorded(lane, id, is_retries)
  local key = delivery_prefix .. id
  return {id = id, key = key, lane = lane, is_retry = is_retries, is_gone = redis.call('EXISTS', key) == 0,
    flies = redis.call('ZSCORE', claims, id) and true}
end

-- Plans claims and ends of the deliveries of a lane. Returns when it is due again: '' if another script will set that.
local function look(lane, at_ms)
  local subscription, is_retries = state_subscription(state, lane:match('^[^:]*')), lane:match('^[^:]*:retries$')
  -- Its deliveries wait until the record is repaired.
  if subscription.damage then
    state.key = subscription.webhook
    error({err = subscription.damage})
  end
  local concurrency = state_concurrency(is_replayed(lane), lane_concurrency)
  -- A change of its status sets the time to 0: deliveries that can only fail do so now, and not when they are due.
  local ends = is_retries and (at_ms == 0 or not subscription.active)
  local ids, more, due_ms = heads(lane, concurrency, is_retries, ends)
  local flying, ended = 0, 0
  reads = reads + #ids
  for _, id in ipairs(ids) do
    local delivery, has_ended = state_delivery(state, id)
    local why = delivery and state_hopeless(delivery, subscription, stale_ms)
    -- Its place cannot be read, so its event cannot be found, and its end would not find the lane.
    if delivery and not is_retries and delivery.lane ~= lane then delivery.lane, why = lane, DAMAGED end
    if not delivery and not has_ended then delivery, why = unrecorded(lane, id, is_retries), DAMAGED end
    -- A repaired record may have an old claim.
    if delivery and delivery.claim and not redis.call('ZSCORE', claims, id) then delivery.claim = false end
    if (why or not delivery) and spare == 0 then return ends and 0 or now end
    if not delivery then
      spare = spare - 1
      plan[#plan + 1] = {lane = lane, id = id, is_retries = is_retries}
    elseif delivery.claim then
      flying = flying + 1
    elseif why then
      ended, spare = ended + 1, spare - 1
      plan[#plan + 1] = {delivery = delivery, subscription = subscription, why = why}
    elseif (due_ms[id] or now) <= now then
      if not is_retries and flying >= concurrency then return '' end
      local put_off_ms = not is_retries and state_put_off(state, delivery)
      if put_off_ms then return put_off_ms end
      if room == 0 then return now end
      local limit = busy[subscription.owner.name]
      if not state_has_room(subscription, is_retries, limit or FLYING_MAX) then
        return now + (limit and BUSY_MS or AGAIN_MS)
      end
      room, flying, subscription.planned = room - 1, flying + 1, (subscription.planned or 0) + 1
      plan[#plan + 1] = {delivery = delivery, subscription = subscription}
    end
  end
  if ends and more and ended > 0 then return 0 end
  -- If all of them are in flight, their outcomes set it.
  return (is_retries or more and flying < #ids) and now or ''
end

local due = redis.call('ZRANGEBYSCORE', lanes, '-inf', now, 'WITHSCORES', 'LIMIT', 0, LANES)
for i = 1, #due, 2 do
  if room == 0 or reads >= READS then break end
  local is_read, again = state_try(state, look, due[i], tonumber(due[i + 1]))
  -- The deliveries planned so far are before the damage.
  if not is_read then damaged[#damaged + 1] = again end
  looked_at[#looked_at + 1] = {name = due[i], again = is_read and again or now + DAMAGED_MS, is_damaged = not is_read}
end
redis.call('HLEN', open)
redis.call('ZCARD', claims)
redis.call('HLEN', claimed_lanes)

-- Effects: none can fail.

local ended = {}
local reply = {'taken', 0, ended, table.concat(damaged, '\n')}
local more = #due > 2 * #looked_at or #due == 2 * LANES
for _, step in ipairs(plan) do
  local delivery, subscription = step.delivery, step.subscription
  if not delivery then
    redis.call(step.is_retries and 'ZREM' or 'LREM', lane_prefix .. step.lane, unpack(step.is_retries and {step.id} or {1, step.id}))
  elseif step.why then
    ended[#ended + 1], ended[#ended + 2] = REASONS[step.why], delivery.id
    state_leave_lane(state, delivery, subscription)
    if delivery.flies then state_land(state, delivery, subscription) end
    if delivery.is_gone then
      state_count_end(delivery, subscription)
    else
      redis.call('HDEL', delivery.key, 'claim', 'lost', 'next_retry_at_ms', 'retry_delay_ms')
      state_end(state, delivery, subscription, 'FAILED', 'error_message', step.why)
    end
  else
    reply[#reply + 1] = {claim_write(state, claim, delivery, subscription)}
  end
end
for _, lane in ipairs(looked_at) do
  local again = lane.again
  if lane.name:find('^[^:]*:retries$') and not lane.is_damaged then
    -- The next is due at its own time, or again soon where it is due already.
    local first = redis.call('ZRANGE', lane_prefix .. lane.name, 0, 0, 'WITHSCORES')
    if not first[2] then again = '' elseif again ~= 0 then again = math.max(tonumber(first[2]), again) end
  end
  if again == '' then
    redis.call('ZREM', lanes, lane.name)
  else
    redis.call('ZADD', lanes, again, lane.name)
    more = more or again <= now
  end
end
if more then reply[2] = 1 end
state_write(state, claims, claimed_lanes, open)
return reply
