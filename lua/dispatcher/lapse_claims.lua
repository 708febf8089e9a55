#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/deliveries.rs.
Ends claims that no dispatcher keeps any more: what was in flight is attempted again, before what follows it. Has lanes
looked at whose first delivery is in flight while the others can only fail.

damaged: keys of another type, and records of claimed deliveries that are gone, a line each with why. next: from where
on to look further; '' at the end.

KEYS[1]  read   lease          hash  lease
KEYS[2]  write  lanes          zset  lanes
KEYS[3]  write  claims         zset  claims
KEYS[4]  write  claimed_lanes  hash  claimedlanes
KEYS[5]  write  open           hash  open
built    read                  hash  webhook:<subscription_id>
built    read                  hash  tenant:<tenant>
built    write                 hash  delivery:<delivery_id>
built    write                 list  lane:<lane>
built    write                 hash  window:<subscription_id>

ARGV[1]  webhook_prefix   prefix webhook:
ARGV[2]  tenant_prefix    prefix tenant:
ARGV[3]  delivery_prefix  prefix delivery:
ARGV[4]  lane_prefix      prefix lane:
ARGV[5]  window_prefix    prefix window:
ARGV[6]  fencing_token    int64
ARGV[7]  over_ms          int64 or ''       To end those whose time was over by then, and look at no others.
ARGV[8]  alive            text
    Dispatchers, blanks between: the claims of others end. '' where that is not known.
ARGV[9]  after            int64             The number of claims to pass over.

Replies, the first that applies:
  fenced | lapsed count damaged next
Writes:
  On lapsed: deliveries, their claims, lanes and windows.
]]
local lease, lanes, claims, claimed_lanes, open = unpack(KEYS)
local webhook_prefix, tenant_prefix, delivery_prefix, lane_prefix, window_prefix, fencing_token, over_ms, alive, after
  = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/slot, delivery/state
local now = now_ms()
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
slot_check(lanes)
local state = state_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix})
local ROWS, DAMAGED_MS = 100, 60000
local from = tonumber(after)
local ids = over_ms ~= '' and redis.call('ZRANGEBYSCORE', claims, '-inf', over_ms, 'LIMIT', 0, ROWS)
  or redis.call('ZRANGE', claims, from, from + ROWS - 1)
local lapsed, hasten, later, damaged = {}, {}, {}, {}

-- Returns whether no dispatcher keeps a claim. A claim without a record ends with its attempt or its time: its holder is unknown.
local function is_lapsed(delivery, has_ended)
  if over_ms ~= '' then return true end
  if not delivery then return has_ended end
  local holder = (delivery.claim or ''):match('^([^:]*):')
  if not holder then return true end
  return alive ~= '' and not (' ' .. alive .. ' '):find(' ' .. holder .. ' ', 1, true)
end

-- Returns the delivery of a claim whose record is gone. is_queued: whether it is still in its lane, or that cannot be read.
local function gone_delivery(id, lane, is_retry)
  return {id = id, lane = lane, is_retry = is_retry, is_queued = not is_retry and redis.pcall('LPOS', lane_prefix .. lane, id)}
end

-- Plans the end of a claim. One of an earlier release has no noted lane; its record names it.
local function look(id)
  local delivery, has_ended = state_delivery(state, id)
  local noted = state_read(state, 'HGET', claimed_lanes, id) or delivery and delivery.lane
  local retry_lane = noted and noted:match('^[^:]*:retries (.*)$')
  local lane = retry_lane or noted
  local subscription = noted and state_subscription(state, delivery and delivery.subscription or noted:match('^[^:]*'))
  if is_lapsed(delivery, has_ended) then
    local is_gone = not delivery and not has_ended
    if is_gone then damaged[#damaged + 1] = delivery_prefix .. id .. ' it is gone' end
    if subscription then state_can_wait(state, subscription) end
    lapsed[#lapsed + 1] = {id = id, lane = lane, delivery = delivery, subscription = subscription,
      gone = is_gone and noted and gone_delivery(id, lane, retry_lane ~= nil)}
  elseif delivery and not delivery.is_retry and not state_is_current(delivery, subscription) then
    hasten[lane] = true
  end
end

for _, id in ipairs(ids) do
  local is_read, why = state_try(state, look, id)
  if not is_read then
    damaged[#damaged + 1] = why
    -- It is tried again in a minute, and those behind it now.
    if over_ms ~= '' then later[#later + 1] = id end
  end
end
redis.call('ZCARD', lanes)
redis.call('HLEN', open)

-- Effects: none can fail.

-- Ends the claim of a delivery whose record is gone. If it is in its lane, take_deliveries ends the delivery itself.
local function end_gone(gone, subscription)
  state_land(state, gone, subscription)
  if not gone.is_queued then state_count_end(gone, subscription) end
  if not gone.is_retry then redis.call('ZADD', lanes, now, gone.lane) end
end

for _, claim in ipairs(lapsed) do
  local delivery, subscription = claim.delivery, claim.subscription
  if delivery and delivery.claim then
    state_land(state, delivery, subscription)
    redis.call('HDEL', delivery.key, 'claim')
    redis.call('HSET', delivery.key, 'lost', delivery.lost + 1)
    if delivery.is_retry then
      state_wait(state, lanes, delivery, subscription, now)
    else
      redis.call('ZADD', lanes, now, claim.lane)
    end
  elseif claim.gone then
    end_gone(claim.gone, subscription)
  else
    state.landed[#state.landed + 1] = claim.id
  end
end
for _, id in ipairs(later) do redis.call('ZADD', claims, now + DAMAGED_MS, id) end
-- Deliveries that can only fail do so without waiting for the one in flight before them.
for lane in pairs(hasten) do redis.call('ZADD', lanes, now, lane) end
state_write(state, claims, claimed_lanes, open)
return {'lapsed', #lapsed, table.concat(damaged, '\n'), #ids == ROWS and from + ROWS - #lapsed or ''}
