#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/attempts.rs.
Records how attempts ended, for those that have the claims, and claims the next delivery of each one's lane. A final
failure counts against the subscription, and disables it where there were too many in a row for long enough, or the
receiver is gone; it is alone in its call.

outcome: success; retry, after delay_ms; failed finally; dropped, which does not count; later, after delay_ms, where
nothing was sent; back, the same for an attempt that was cancelled. A delivery whose subscription has changed its epoch
fails unless it succeeded, and does not count.

ends: an array for each attempt, in their order. lost: another has the claim by now. damaged: the key of another type
because of which it was not recorded, and why; the others are. ended: the recorded outcome, whether the subscription was
disabled, whether others may be attempted that were not claimed, and the claim of the next delivery.

KEYS[1]   write  lanes          zset    lanes
KEYS[2]   write  claims         zset    claims
KEYS[3]   write  claimed_lanes  hash    claimedlanes
KEYS[4]   write  open           hash    open
KEYS[5]   write  failing        zset    failing
KEYS[6]   write  counts         hash    counts  (if fails)
KEYS[7]   write  tenant_key     hash    tenant:<owner>  (if fails)
KEYS[8]   write  webhooks       zset    webhooks:<owner>  (if fails)
KEYS[9]   write  webhooks_mark  string  webhooksmark:<owner>  (if fails)
KEYS[10]  write  watch          hash    watch:<owner>  (if fails)
KEYS[11]  write  thresholds     hash    thresholds  (if fails)
KEYS[12]  write  event_log      stream  events:<owner>:<day>  (if fails)
KEYS[13]  write  system_log     stream  events:<system>:<day>  (if fails)
KEYS[14]  write  outbox         stream  outbox  (if fails)
KEYS[15]  write  days           zset    days  (if fails)
built     read                  hash    tenant:<tenant>
built     read                  string  webhooksmark:<owner>
built     write                 hash    delivery:<delivery_id>
built     write                 list    lane:<lane>
built     write                 hash    window:<subscription_id>
built     write                 hash    webhook:<subscription_id>

ARGV[1]     tenant_prefix         prefix tenant:
ARGV[2]     webhooks_mark_prefix  prefix webhooksmark:
ARGV[3]     delivery_prefix       prefix delivery:
ARGV[4]     lane_prefix           prefix lane:
ARGV[5]     window_prefix         prefix window:
ARGV[6]     webhook_prefix        prefix webhook:
ARGV[7]     day                   yyyymmdd
ARGV[8]     day_start_ms          int64
ARGV[9]     owner                 text                  Of the subscription, where an attempt failed finally.
ARGV[10]    context               text
    The request cause of the events about that failure, lines of name and value.
ARGV[11]    details               text                  Of the event about that failure, as JSON; '' for no event.
ARGV[12]    gone_url              text
    Address of a receiver that is gone, which disables a subscription that still has it; else ''.
ARGV[13]    dispatcher            text
ARGV[14]    claim_ms              int64
ARGV[15]    lane_concurrency      int64
ARGV[16]    stale_before_ms       int64 or ''
ARGV[17..]  attempts              to the end
    In order: the delivery, the token of its claim, its subscription and lane, outcome, delay_ms, how many of the
    subscription may be in flight with the next one of the lane, or 0 to claim none; a number of places, and in these
    names and values for the record.

Replies, the first that applies:
  clock now_ms | ended ends
Writes:
  On ended: deliveries, their claims, lanes and windows; the subscriptions; on a failure that counts events.
]]
local lanes, claims, claimed_lanes, open, failing, counts, tenant_key, webhooks, webhooks_mark, watch, thresholds,
  event_log, system_log, outbox, days = unpack(KEYS)
local tenant_prefix, webhooks_mark_prefix, delivery_prefix, lane_prefix, window_prefix, webhook_prefix, day,
  day_start_ms, owner, context, details, gone_url, dispatcher, claim_ms, lane_concurrency, stale_before_ms
  = unpack(ARGV, 1, 16)
local attempts_from = 17
-- End of the signature.
-- @include base/time, base/slot, delivery/state, delivery/claim
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
slot_check(lanes)
local state = state_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix, mark = webhooks_mark_prefix})
-- When a delivery with a damaged record is tried again.
local DAMAGED_MS = 60000
local claim, stale_ms = {dispatcher = dispatcher, claim_ms = tonumber(claim_ms)}, tonumber(stale_before_ms)

-- Returns the next delivery of the lane, if this dispatcher has room for it; and whether there is one at all.
local function next_of_lane(ending, subscription, limit)
  local flying, concurrency = 0, state_concurrency(is_replayed(ending.lane), lane_concurrency)
  local ids = state_read(state, 'LRANGE', lane_prefix .. ending.lane, '0', concurrency)
  for i = 1, #ids do
    if ids[i] ~= ending.id then
      local other, is_flying = state_waiting(state, subscription.id, ending.lane, ids[i])
      -- A repaired record may have an old claim; take_deliveries handles it.
      if is_flying and not redis.call('ZSCORE', claims, ids[i]) then return nil, true end
      if not is_flying then
        -- Deliveries behind it wait as well, and the lane is due then.
        if other and state_put_off(state, other) then return nil, false end
        local is_free = other and flying < concurrency and subscription.flying <= math.min(FLYING_MAX, tonumber(limit))
        return is_free and not state_hopeless(other, subscription, stale_ms) and other or nil, true
      end
      flying = flying + 1
    end
  end
  return nil, false
end

-- Raises if a counted failure could not be written. Records whether it disables the subscription.
local function check_failure(ending, subscription)
  local failures_max, lasting_ms
  failures_max, lasting_ms, ending.since_ms, ending.version = state_failing(state, subscription)
  state_read(state, 'ZCARD', days)
  for _, log in ipairs({event_log, system_log, outbox}) do state_read(state, 'XLEN', log) end
  -- A change of the address does not change the epoch.
  ending.is_gone = gone_url ~= '' and redis.call('HGET', subscription.webhook, 'url') == gone_url
  ending.disables = ending.is_gone or subscription.failures + 1 >= failures_max and now - ending.since_ms >= lasting_ms
  if ending.disables then
    -- @cold admin/counts, admin/watch, admin/webhook_status
    counts_check(counts)
    watch_check(watch, thresholds)
    ending.mark = webhooks_mark_read(webhooks_mark)
    state_read(state, 'ZCARD', webhooks)
  end
end

-- Returns the end of an attempt whose record is gone or has another type: only its counts end here. nil where another has the
-- claim, since the time says when that ends.
local function unrecorded(at, damage)
  local id, token, subscription_id, lane = unpack(ARGV, at, at + 3)
  local until_ms = tonumber(redis.call('ZSCORE', claims, id) or 0)
  if until_ms ~= (tonumber(token:match(':(%d+)$')) or 0) + claim.claim_ms then return nil end
  local subscription = state_subscription(state, subscription_id)
  state_read(state, 'ZCARD', lanes)
  state_can_wait(state, subscription)
  local position = redis.pcall('LPOS', lane_prefix .. lane, id)
  return {id = id, key = delivery_prefix .. id, lane = lane, subscription = subscription, is_retry = not position,
    has_damaged_lane = type(position) == 'table', is_unrecorded = true, damage = damage}
end

-- The same for an attempt whose record does not name the claim; stored: the claim in the record.
local function not_claimed(at, key, stored)
  local damage = stored and stored.err
  if damage then return unrecorded(at, key .. ' ' .. damage) end
  return redis.call('EXISTS', key) == 0 and unrecorded(at) or nil
end

-- Returns an end with the fields of its delivery, or nil where another has the claim. A first attempt has nothing behind it.
local function claimed(at)
  local id, token, subscription_id, lane, outcome = unpack(ARGV, at, at + 4)
  local key, is_retry, lost = delivery_prefix .. id, false, 0
  if token:find(':1:', 1, true) then
    local stored = redis.pcall('HGET', key, 'claim')
    if stored ~= token then return not_claimed(at, key, stored) end
  else
    local stored = redis.pcall('HMGET', key, 'claim', 'status', 'lost')
    if stored[1] ~= token then return not_claimed(at, key, stored) end
    is_retry, lost = stored[2] == 'RETRYING', tonumber(stored[3]) or 0
  end
  return {at = at, id = id, key = key, lane = lane, is_retry = is_retry, lost = lost, outcome = outcome,
    subscription = state_subscription(state, subscription_id), is_current = false, next = nil, is_left = false}
end

-- Returns an end with all that it needs, or nil where another has the claim. Writes nothing, and raises where something could
-- not be written: the other ends of the call do not depend on it.
local function read_end(at)
  local ending = claimed(at)
  if not ending or ending.is_unrecorded then return ending end
  local subscription, outcome = ending.subscription, ending.outcome
  if outcome ~= 'success' or subscription.failures > 0 then
    ending.epoch = redis.call('HGET', ending.key, 'epoch') or '0'
    ending.is_current = state_is_current(ending, subscription)
  end
  -- Whether it returns to its lane.
  ending.waits = ending.is_current and (outcome == 'later' or outcome == 'back')
  if not ending.is_retry and not ending.waits then
    local is_read, one, left = state_try(state, next_of_lane, ending, subscription, ARGV[at + 6])
    -- take_deliveries reports a damaged lane; this end is recorded.
    ending.next, ending.is_left = is_read and one, left or not is_read
    ending.has_damaged_lane = not is_read and state.key == lane_prefix .. ending.lane
  end
  ending.counts = ending.is_current and outcome == 'failed'
  if ending.counts then check_failure(ending, subscription) end
  -- Only keys that are written are checked.
  if ending.disables or not ending.next or outcome == 'retry' then state_read(state, 'ZCARD', lanes) end
  if outcome ~= 'success' then state_can_wait(state, subscription) end
  if ending.counts or subscription.failures > 0 then state_read(state, 'ZCARD', failing) end
  return ending
end

-- Effects: none can fail.

-- Removes what belongs to an earlier attempt. The end of a delivery blanks its claim. Only an attempt that failed has left
-- something else behind.
local function forget_attempt(ending)
  local outdated = {(ending.waits or ending.retries) and 'claim' or nil}
  if ending.is_retry then
    outdated = {'response_status', 'response_time_ms', 'error_message', 'next_retry_at_ms', 'retry_delay_ms',
      unpack(outdated)}
  end
  if ending.lost > 0 then outdated[#outdated + 1] = 'lost' end
  if #outdated > 0 then redis.call('HDEL', ending.key, unpack(outdated)) end
  -- If nothing was sent, it does not count as an attempt.
  if ending.outcome == 'later' or ending.outcome == 'dropped' then redis.call('HINCRBY', ending.key, 'attempts', -1) end
end

-- Disables the subscription, with the event about it.
local function write_disabling(ending, settings)
  -- @cold admin/counts, admin/watch, admin/webhook_status, log/days, log/events
  local subscription = ending.subscription
  counts_move(counts, 'webhook', 'ACTIVE', 'DISABLED')
  redis.call('HSET', subscription.webhook, 'status', 'DISABLED', 'updated_at_ms', now, 'version', ending.version + 1)
  webhook_deactivated(subscription.webhook, subscription.epoch, lanes, subscription.id)
  local tenant_record = settings[TENANT_STATUS] and tenant_key
  if tenant_record or owner == '__system__' then watch_write(watch, thresholds, tenant_record, subscription.id, '') end
  webhooks_mark_renew(webhooks_mark, webhooks, ending.mark, subscription.id)
  local events = events_new(event_log, outbox, owner, day, now, context)
  event_append(events, 'webhook.disabled', nil, {'data.subscription_id', subscription.id, 'data.previous_status', 'ACTIVE',
    'data.new_status', 'DISABLED', 'data.changed_fields', '',
    'data.disable_reason', ending.is_gone and 'gone' or 'consecutive_failures_exceeded_threshold',
    'correlation_id', 'webhook_auto_disable:' .. subscription.id .. ':' .. ending.id})
  events_point(events)
  day_register(days, tenant_key, settings, owner, day, now)
end

-- Counts a failure against the subscription, with the events about it.
local function write_failure(ending)
  -- @cold access/tenant, log/events
  local subscription = ending.subscription
  local failures = subscription.failures + 1
  redis.call('HSET', subscription.webhook, 'consecutive_failures', failures, 'failing_since_ms', ending.since_ms,
    'last_failure_at_ms', now)
  redis.call('ZADD', failing, failures, subscription.id)
  local _, settings = tenant_refusal(tenant_key)
  if ending.disables then write_disabling(ending, settings) end
  -- The failed delivery of such an event emits none.
  if details == '' then return end
  local events = events_new(system_log, outbox, '__system__', day, now, context)
  event_append(events, 'system.webhook_delivery_failed', nil, {'data.component', 'webhook_dispatcher',
    'data.message', 'A delivery failed for good', 'data.severity', 'warning', 'data.details', details,
    'correlation_id', 'webhook_delivery_failed:' .. subscription.id .. ':' .. ending.id})
  events_point(events)
  redis.call('ZADD', days, 'NX', now, '__system__:' .. day)
end

-- Returns a delivery to its lane.
local function put_back(ending, delay_ms)
  if ending.is_retry then
    redis.call('HSET', ending.key, 'retry_delay_ms', delay_ms)
    state_wait(state, lanes, ending, ending.subscription, now + delay_ms)
  else
    if tonumber(lane_concurrency) > 1 and delay_ms ~= '0' then redis.call('HSET', ending.key, 'not_before_ms', now + delay_ms) end
    redis.call('ZADD', lanes, now + delay_ms, ending.lane)
  end
end

-- Schedules a retry of a delivery that has left its lane. Behind delay_ms: names and values.
local function retry(ending, delay_ms, ...)
  local due_ms = now + delay_ms
  redis.call('HSET', ending.key, 'status', 'RETRYING', 'next_retry_at_ms', due_ms, 'retry_delay_ms', delay_ms, ...)
  redis.call('HINCRBY', ending.key, 'failures', 1)
  state_wait(state, lanes, ending, ending.subscription, due_ms)
end

-- Ends a delivery that has left its lane. Behind status: names and values.
local function end_delivery(ending, status, ...)
  local subscription = ending.subscription
  state_end(state, ending, subscription, status, ...)
  if status ~= 'SUCCESS' or not subscription.exists then return end
  subscription.succeeded = true
  if ending.is_current and subscription.failures > 0 then
    subscription.failures = 0
    redis.call('HSET', subscription.webhook, 'consecutive_failures', 0)
    redis.call('ZREM', failing, subscription.id)
  end
end

-- Writes an end; to: its last argument. Returns its reply, with the claim of the next delivery.
local function write_end(ending, to)
  local subscription, outcome, at = ending.subscription, ending.outcome, ending.at
  ending.retries = ending.is_current and outcome == 'retry'
  state_land(state, ending, subscription)
  if outcome ~= 'success' or ending.is_retry or ending.lost > 0 then forget_attempt(ending) end
  if ending.waits then
    put_back(ending, ARGV[at + 5])
  else
    if not ending.is_retry then state_leave_lane(state, ending, subscription) end
    if ending.retries then
      retry(ending, ARGV[at + 5], unpack(ARGV, at + 8, to))
    else
      end_delivery(ending, outcome == 'success' and 'SUCCESS' or 'FAILED', unpack(ARGV, at + 8, to))
    end
  end
  if ending.counts then write_failure(ending) end
  -- Where the subscription has changed, the delivery is neither attempted again nor counted.
  local recorded = (outcome == 'success' or ending.is_current) and outcome or 'dropped'
  if ending.next and not ending.disables then
    return {'ended', recorded, 0, 0, claim_write(state, claim, ending.next, subscription)}
  end
  if ending.is_left then redis.call('ZADD', lanes, now, ending.lane) end
  -- Where the subscription had as many in flight as it may have, its other lanes wait for this one.
  local is_awaited = ending.is_left or ending.is_retry or subscription.flying + 1 >= FLYING_MAX
  return {'ended', recorded, ending.disables and 1 or 0, is_awaited and 1 or 0}
end

-- Ends an attempt without a record. One that is gone is not open any more; a damaged one goes back where it was, since it may be
-- repaired.
local function write_unrecorded(ending)
  state_land(state, ending, ending.subscription)
  if ending.damage then
    if ending.is_retry then
      state_wait(state, lanes, ending, ending.subscription, now + DAMAGED_MS)
    else
      redis.call('ZADD', lanes, now + DAMAGED_MS, ending.lane)
    end
    return {'damaged', ending.damage}
  end
  if not ending.is_retry then
    state_leave_lane(state, ending, ending.subscription)
    redis.call('ZADD', lanes, now, ending.lane)
  end
  state_count_end(ending, ending.subscription)
  return {'ended', 'gone', 0, 1}
end

redis.call('HLEN', open)
redis.call('ZCARD', claims)
redis.call('HLEN', claimed_lanes)
-- One after the other, as if each were a call of its own: only the claims, windows and times are written together.
local reply, at = {'ended'}, attempts_from
while at <= #ARGV do
  local to = at + 7 + ARGV[at + 7]
  local is_read, ending = state_try(state, read_end, at)
  if is_read then
    if not ending then
      reply[#reply + 1] = {'lost'}
    else
      reply[#reply + 1] = ending.is_unrecorded and write_unrecorded(ending) or write_end(ending, to)
    end
  else
    reply[#reply + 1] = {'damaged', ending}
  end
  at = to + 1
end
state_write(state, claims, claimed_lanes, open)
return reply
