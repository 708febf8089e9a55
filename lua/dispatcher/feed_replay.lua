#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/catch_up.rs.
Queues the next deliveries of a replay in its lane, as many as have room there, and ends the replay when none is left
and the lane is empty.

more: whether more can be queued at once. hopeless: whether what waits in the lane can only fail.

KEYS[1]  read   lease              hash    lease
KEYS[2]  write  lanes              zset    lanes
KEYS[3]  write  open               hash    open
KEYS[4]  write  behind_index       zset    behind
KEYS[5]  write  queued_deliveries  hash    queued
KEYS[6]  write  replays            zset    replays
KEYS[7]  write  replay             hash    replay:<replay_id>
KEYS[8]  write  replay_events      list    replayevents:<replay_id>
built    read                      hash    webhook:<subscription_id>
built    read                      hash    tenant:<tenant>
built    write                     string  replaylock:<subscription_id>
built    write                     hash    delivery:<delivery_id>
built    write                     list    lane:<lane>
built    write                     hash    window:<subscription_id>
built    write                     zset    deliveries:<subscription_id>:<day>

ARGV[1]   webhook_prefix      prefix webhook:
ARGV[2]   tenant_prefix       prefix tenant:
ARGV[3]   replay_lock_prefix  prefix replaylock:
ARGV[4]   delivery_prefix     prefix delivery:
ARGV[5]   lane_prefix         prefix lane:
ARGV[6]   window_prefix       prefix window:
ARGV[7]   deliveries_prefix   prefix deliveries:
ARGV[8]   fencing_token       int64
ARGV[9]   replay_id           text
ARGV[10]  most                int64               How many at most.
ARGV[11]  lane_concurrency    int64               First attempts of a lane that may be in flight at once.
ARGV[12]  stale_before_ms     int64 or ''
    Deliveries queued before are no longer attempted; '' while the clock is in doubt.

Replies, the first that applies:
  fenced | fed queued more hopeless | ended
Writes:
  On fed: deliveries, their lane and window, when the replay is looked at again. On ended the replay and its lock go.
]]
local lease, lanes, open, behind_index, queued_deliveries, replays, replay, replay_events = unpack(KEYS)
local webhook_prefix, tenant_prefix, replay_lock_prefix, delivery_prefix, lane_prefix, window_prefix,
  deliveries_prefix, fencing_token, replay_id, most, lane_concurrency, stale_before_ms = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/slot, delivery/state, delivery/queue
-- Deliveries of one call; how many of those that may be open may be of replays; when a replay that has to wait is looked at again.
local ROWS, REPLAYING_MAX, AGAIN_MS = 50, 250, 200
local now = now_ms()
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
slot_check(lanes)
local subscription_id, epoch, at_ms, queued_on = unpack(redis.call('HMGET', replay, 'subscription_id', 'epoch',
  'created_at_ms', 'day'))
-- A replay of an earlier release, which delivered none, ends like that of a subscription that is gone.
if not (subscription_id and epoch and at_ms and queued_on) then subscription_id, epoch, at_ms, queued_on = '', 0, 0, '' end
local state = state_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix})
local subscription, lane = state_subscription(state, subscription_id), subscription_id .. ':replay:' .. replay_id
if subscription.damage then return redis.error_reply('ERR ' .. subscription.webhook .. ': ' .. subscription.damage) end
local kept, left = redis.call('LRANGE', replay_events, 0, ROWS - 1), redis.call('LLEN', replay_events)
local waiting, lock = redis.call('LLEN', lane_prefix .. lane), replay_lock_prefix .. subscription_id
local holder = redis.call('GET', lock)
redis.call('ZCARD', lanes)
redis.call('ZCARD', replays)
redis.call('ZCARD', behind_index)
-- They are queued with the time of the request, from which their age counts.
local queue = queue_new(tonumber(at_ms), queued_on, state_concurrency(true, lane_concurrency),
  {delivery = delivery_prefix, lane = lane_prefix, window = window_prefix, deliveries = deliveries_prefix})
-- A dispatcher of an earlier release does not count them when they end.
local counts = redis.call('HMGET', subscription.window, 'replaying', 'open')
local replaying = math.min(tonumber(counts[1]) or 0, tonumber(counts[2]) or 0)
local taken
if subscription.exists then
  local owner = subscription.owner.name
  -- What it missed in another epoch is forgotten with the next event, not beside the deliveries.
  local window = queue_window(queue, subscription_id, '',
    {name = owner, open = tonumber(redis.call('HGET', open, owner)) or 0})
  local room = math.min(tonumber(most), REPLAYING_MAX - replaying, OPEN_MAX - window.open,
    OWNER_OPEN_MAX - window.owner.open)
  taken = math.max(math.min(#kept, room), 0)
  for i = 1, taken do
    local id, event_type, place, trace = kept[i]:match('^(%S+) (%S+) (%S+ %S+ %S+ %S+) (.*)$')
    if id then queue_add(queue, window, id, lane, {'place', place, 'type', event_type, 'trace', trace, 'epoch', epoch,
      'lane', lane}) end
  end
else
  -- Its deliveries cannot be listed.
  taken = left
end
local why = state_hopeless({epoch = epoch, at_ms = tonumber(at_ms), lost = 0}, subscription, tonumber(stale_before_ms))

-- Effects: none can fail.
local queued = #queue.deliveries
if queued > 0 then
  queue_write(queue, lanes, behind_index, open, queued_deliveries)
  redis.call('HSET', subscription.window, 'replaying', replaying + queued)
end
left, waiting = left - taken, waiting + queued
if left == 0 and waiting == 0 then
  redis.call('DEL', replay, replay_events)
  redis.call('ZREM', replays, replay_id)
  if holder == replay_id then redis.call('DEL', lock) end
  return {'ended'}
end
-- Deliveries that can only fail do not wait for an attempt in flight.
if why and waiting > 0 then redis.call('ZADD', lanes, 'LT', now, lane) end
redis.call('LTRIM', replay_events, taken, -1)
local continues = taken > 0 and left > 0
redis.call('ZADD', replays, 'XX', continues and now or now + AGAIN_MS, replay_id)
return {'fed', queued, continues and 1 or 0, why and 1 or 0}
