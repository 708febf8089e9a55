#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/deliveries.rs.
Books the outcome of an attempt, by whom the claim is, and claims the next delivery of the lane. A failure for good
counts against the subscription, and disables it where there were too many in a row.

outcome: success; retry, after delay_ms; failed for good; dropped, which does not count; later, after delay_ms, where
nothing was sent; back, the same for an attempt that was broken off. A delivery whose subscription has changed its epoch
fails unless it succeeded, and does not count. lost: another has the claim by now. disabled: whether the subscription
was. left: whether others may be attempted that were not claimed.

KEYS[1]   write  lanes          zset    lanes
KEYS[2]   write  claims         zset    claims
KEYS[3]   write  open           hash    open
KEYS[4]   write  failing        zset    failing
KEYS[5]   write  counts         hash    counts  (if fails)
KEYS[6]   write  tenant_key     hash    tenant:<owner>  (if fails)
KEYS[7]   write  webhooks       zset    webhooks:<owner>  (if fails)
KEYS[8]   write  webhooks_mark  string  webhooksmark:<owner>  (if fails)
KEYS[9]   write  watch          hash    watch:<owner>  (if fails)
KEYS[10]  write  thresholds     hash    thresholds  (if fails)
KEYS[11]  write  event_log      stream  events:<owner>:<day>  (if fails)
KEYS[12]  write  system_log     stream  events:<system>:<day>  (if fails)
KEYS[13]  write  outbox         stream  outbox  (if fails)
KEYS[14]  write  days           zset    days  (if fails)
built     write                 hash    delivery:<delivery_id>
built     write                 list    lane:<lane>
built     write                 hash    window:<subscription_id>
built     write                 hash    webhook:<subscription_id>

ARGV[1]     day                   yyyymmdd
ARGV[2]     day_start_ms          int64
ARGV[3]     owner                 text
ARGV[4]     delivery_id           text
ARGV[5]     token                 text                  Of the claim.
ARGV[6]     outcome               text
ARGV[7]     delay_ms              int64
ARGV[8]     context               text                  The request cause of the events, lines of name and value.
ARGV[9]     details               text                  Of the event about the failure, as JSON; '' for no event.
ARGV[10]    next_of_subscription  int64
    Deliveries of the subscription that may be in flight with the next one of the lane; 0 to claim none.
ARGV[11]    dispatcher            text
ARGV[12]    claim_ms              int64
ARGV[13]    lane_concurrency      int64
ARGV[14]    stale_before_ms       int64 or ''
ARGV[15]    delivery_prefix       prefix delivery:
ARGV[16]    lane_prefix           prefix lane:
ARGV[17]    window_prefix         prefix window:
ARGV[18]    webhook_prefix        prefix webhook:
ARGV[19]    tenant_prefix         prefix tenant:
ARGV[20]    mark_prefix           prefix webhooksmark:
ARGV[21..]  fields                to the end            Names and values for the record.

Replies, the first that applies:
  clock now_ms | lost | ended disabled left next
Writes:
  On ended: the delivery, its claim, lane and window; the subscription; on a failure that counts events.
]]
local lanes, claims, open, failing, counts, tenant_key, webhooks, webhooks_mark, watch, thresholds, event_log,
  system_log, outbox, days = unpack(KEYS)
local day, day_start_ms, owner, delivery_id, token, outcome, delay_ms, context, details, next_of_subscription,
  dispatcher, claim_ms, lane_concurrency, stale_before_ms, delivery_prefix, lane_prefix, window_prefix, webhook_prefix,
  tenant_prefix, mark_prefix = unpack(ARGV, 1, 20)
local fields_from = 21
-- End of the signature.
-- @include base/time, delivery/book, delivery/claim
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local book = book_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix, mark = mark_prefix})
local delivery = book_delivery(book, delivery_id)
if not delivery or delivery.claim ~= token then return {'lost'} end
local subscription = book_subscription(book, delivery.subscription)
local is_current = book_is_current(delivery, subscription)

-- Returns the delivery of the lane that is attempted next, if this dispatcher wants it; and whether there is one at all.
local function next_of_lane()
  local flying, concurrency = 0, book_concurrency(delivery.lane, lane_concurrency)
  for _, id in ipairs(book_read(book, 'LRANGE', lane_prefix .. delivery.lane, '0', integer_text(concurrency))) do
    local other = id ~= delivery_id and book_successor(book, delivery, id)
    if id ~= delivery_id and not (other and other.claim) then
      local is_free = other and flying < concurrency and subscription.flying <= math.min(FLYING_MAX, next_of_subscription)
      if is_free and not book_hopeless(other, subscription, stale_before_ms) then return other, true end
      return nil, true
    end
    if other then flying = flying + 1 end
  end
  return nil, false
end

-- Whether it goes back to where it was.
local waits = is_current and (outcome == 'later' or outcome == 'back')
local next_one, is_left = nil, false
if not delivery.is_retry and not waits then
  local is_read, one, left = book_try(book, next_of_lane)
  -- Damage in the lane is for those who take deliveries to find; this one is booked.
  next_one, is_left = is_read and one, left or not is_read
  delivery.is_lost_to_lane = not is_read and book.key == lane_prefix .. delivery.lane
end
local counts_failure = outcome == 'failed' and is_current
local failures = subscription.failures + 1
local disables, version = false, nil
if counts_failure then
  local failures_max
  failures_max, version = book_failures_max(subscription)
  disables = failures >= failures_max
end
-- Only what this call writes is checked; the first effect checks the claims.
redis.call('HLEN', open)
if disables or not next_one then redis.call('ZCARD', lanes) end
if outcome ~= 'success' then book_can_wait(book, subscription) end
if counts_failure or failures > 1 then redis.call('ZCARD', failing) end
if counts_failure then
  redis.call('ZCARD', days)
  for _, log in ipairs({event_log, system_log, outbox}) do redis.call('XLEN', log) end
end
local mark
if disables then
  -- @cold admin/counts, admin/watch, admin/webhook_status
  counts_check(counts)
  watch_check(watch, thresholds)
  mark = webhooks_mark_read(webhooks_mark)
  redis.call('ZCARD', webhooks)
end

local retries = outcome == 'retry' and is_current
-- The end of a delivery blanks its claim. Only an attempt that failed has left something behind.
local outdated = {(waits or retries) and 'claim' or nil}
if delivery.is_retry then
  outdated = {'response_status', 'response_time_ms', 'error_message', 'next_retry_at_ms', 'retry_delay_ms',
    unpack(outdated)}
end
if delivery.lost > 0 then outdated[#outdated + 1] = 'lost' end

-- Effects: none can fail.
subscription.touched = true
book_land(claims, delivery, subscription)
if #outdated > 0 then redis.call('HDEL', delivery.key, unpack(outdated)) end
-- Where nothing was sent, it was no attempt.
if outcome == 'later' or outcome == 'dropped' then redis.call('HSET', delivery.key, 'attempts', delivery.attempts - 1) end
local fields = {unpack(ARGV, fields_from)}
if waits then
  local due_ms = now + delay_ms
  if delivery.is_retry then
    redis.call('HSET', delivery.key, 'retry_delay_ms', delay_ms)
    book_wait(book, lanes, delivery, subscription, due_ms)
  else
    redis.call('ZADD', lanes, due_ms, delivery.lane)
  end
elseif retries then
  local due_ms = now + delay_ms
  if not delivery.is_retry then book_leave_lane(book, delivery, subscription) end
  redis.call('HSET', delivery.key, 'status', 'RETRYING', 'failures', delivery.failures + 1, 'next_retry_at_ms', due_ms,
    'retry_delay_ms', delay_ms, unpack(fields))
  book_wait(book, lanes, delivery, subscription, due_ms)
else
  if not delivery.is_retry then book_leave_lane(book, delivery, subscription) end
  book_end(book, delivery, subscription, outcome == 'success' and 'SUCCESS' or 'FAILED', fields)
end
if outcome == 'success' and subscription.exists then
  book_stamp(book, subscription, 'last_success_at_ms')
  if is_current and failures > 1 then
    redis.call('HSET', subscription.webhook, 'consecutive_failures', 0)
    redis.call('ZREM', failing, subscription.id)
  end
end
if counts_failure then
  -- @cold access/tenant, log/days, log/events
  redis.call('HSET', subscription.webhook, 'consecutive_failures', failures, 'last_failure_at_ms', now)
  redis.call('ZADD', failing, failures, subscription.id)
  local _, settings = tenant_refusal(tenant_key)
  if disables then
    -- @cold admin/counts, admin/watch, admin/webhook_status
    counts_move(counts, 'webhook', 'ACTIVE', 'DISABLED')
    redis.call('HSET', subscription.webhook, 'status', 'DISABLED', 'updated_at_ms', now, 'version',
      version + 1)
    webhook_deactivated(subscription.webhook, subscription.epoch, lanes, subscription.id)
    local tenant_record = settings[TENANT_STATUS] and tenant_key
    if tenant_record or owner == '__system__' then watch_write(watch, thresholds, tenant_record, subscription.id, '') end
    webhooks_mark_renew(webhooks_mark, webhooks, mark, subscription.id)
    local events = events_new(event_log, outbox, owner, day, now, context)
    event_append(events, 'webhook.disabled', nil, {'data.subscription_id', subscription.id, 'data.previous_status', 'ACTIVE',
      'data.new_status', 'DISABLED', 'data.changed_fields', '',
      'data.disable_reason', 'consecutive_failures_exceeded_threshold',
      'correlation_id', 'webhook_auto_disable:' .. subscription.id .. ':' .. delivery_id})
    events_point(events)
    day_register(days, tenant_key, settings, owner, day, now)
  end
  -- The failed delivery of such an event emits none.
  if details ~= '' then
    local events = events_new(system_log, outbox, '__system__', day, now, context)
    event_append(events, 'system.webhook_delivery_failed', nil, {'data.component', 'webhook_dispatcher',
      'data.message', 'A delivery failed for good', 'data.severity', 'warning', 'data.details', details,
      'correlation_id', 'webhook_delivery_failed:' .. subscription.id .. ':' .. delivery_id})
    events_point(events)
    redis.call('ZADD', days, 'NX', now, '__system__:' .. day)
  end
end
local claims_next = next_one and not disables
-- Where the subscription had as many in flight as it may have, its other lanes wait for this one.
local is_awaited = is_left or delivery.is_retry or subscription.flying + 1 >= FLYING_MAX
local reply = {'ended', disables and 1 or 0, not claims_next and is_awaited and 1 or 0}
if claims_next then
  claim_write(book, claims, {dispatcher = dispatcher, claim_ms = tonumber(claim_ms)}, next_one, subscription, reply)
elseif is_left then
  redis.call('ZADD', lanes, now, delivery.lane)
end
book_write(book, open)
return reply
