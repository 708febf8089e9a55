#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/deliveries.rs.
Has deliveries looked at now that need not wait. Of first attempts those that can only fail, since their subscription is
not as it was; and those that are put off for longer than any is, since the clock went back. Of retries those that are
further ahead than they were put off.

next: how many of the later ones to pass over to look further; '' at the end.

KEYS[1]  write  lanes  zset  lanes
built    read          hash  delivery:<delivery_id>
built    read          hash  webhook:<subscription_id>
built    read          hash  window:<subscription_id>
built    read          hash  tenant:<tenant>
built    write         list  lane:<lane>

ARGV[1]   delivery_prefix  prefix delivery:
ARGV[2]   webhook_prefix   prefix webhook:
ARGV[3]   window_prefix    prefix window:
ARGV[4]   tenant_prefix    prefix tenant:
ARGV[5]   lane_prefix      prefix lane:
ARGV[6]   after_ms         int64             Lanes that are due later are looked at.
ARGV[7]   passed           int64             How many of these to pass over: many may be due at the same time.
ARGV[8]   first_ms         int64             By how much a first attempt is put off at most.
ARGV[9]   retry_ms         int64             By how much a retry is, where its record does not say.
ARGV[10]  retries          text              How the name of a lane of retries ends.

Replies, the first that applies:
  hastened next
Writes:
  The times of lanes and of retries.
]]
local lanes = KEYS[1]
local delivery_prefix, webhook_prefix, window_prefix, tenant_prefix, lane_prefix, after_ms, passed, first_ms,
  retry_ms, retries = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/slot, delivery/state
-- Lanes of one call, and the retries of each that are examined: the last due ones.
local LANES, RETRIES = 20, 20
local now = now_ms()
slot_check(lanes)
local state = state_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix})
local found = redis.call('ZRANGEBYSCORE', lanes, '(' .. after_ms, '+inf', 'WITHSCORES', 'LIMIT', passed, LANES)
local hasten, ahead = {}, {}

-- Returns whether the first delivery of a lane can only fail. Those behind it are of the same epoch, or of a later one.
local function is_hopeless(lane)
  local subscription = state_subscription(state, lane:match('^[^:]*'))
  if subscription.damage then return false end
  local first = state_read(state, 'LINDEX', lane_prefix .. lane, 0)
  local delivery = first and state_delivery(state, first)
  return delivery and state_hopeless(delivery, subscription) ~= nil
end

-- Finds the retries of a lane that are further ahead than their delay; returns whether there are any.
local function look(key, at_ms)
  if at_ms - first_ms <= now then return false end
  local last = redis.call('ZRANGE', key, -RETRIES, -1, 'WITHSCORES')
  local before = #ahead
  for i = 1, #last, 2 do
    local delay_ms = redis.call('HGET', delivery_prefix .. last[i], 'retry_delay_ms') or retry_ms
    if last[i + 1] - delay_ms > now then ahead[#ahead + 1] = {key = key, id = last[i]} end
  end
  return #ahead > before
end

for i = 1, #found, 2 do
  local lane, at_ms = found[i], tonumber(found[i + 1])
  -- A tenant may also be named `retries`, and its lane ends so.
  if lane == lane:match('^[^:]*') .. retries then
    -- take_deliveries reports a key of another type.
    local is_read, has_some = pcall(look, lane_prefix .. lane, at_ms)
    if is_read and has_some then hasten[#hasten + 1] = lane end
  else
    local is_read, fails = state_try(state, is_hopeless, lane)
    if is_read and fails or at_ms - first_ms > now then hasten[#hasten + 1] = lane end
  end
end

-- Effects: none can fail.
for _, retry in ipairs(ahead) do redis.call('ZADD', retry.key, 'XX', now, retry.id) end
for _, lane in ipairs(hasten) do redis.call('ZADD', lanes, 'XX', now, lane) end
-- Lanes that are due now are not among the later ones any more.
return {'hastened', #found == 2 * LANES and passed + LANES - #hasten or ''}
