#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/deliveries.rs.
Ends claims that no dispatcher keeps any more: what was in flight is attempted again, before what follows it.

next: from where on to look further; '' at the end.

KEYS[1]  read   lease   hash  lease
KEYS[2]  write  lanes   zset  lanes
KEYS[3]  write  claims  zset  claims
KEYS[4]  write  open    hash  open
built    read           hash  webhook:<subscription_id>
built    read           hash  tenant:<tenant>
built    write          hash  delivery:<delivery_id>
built    write          list  lane:<lane>
built    write          hash  window:<subscription_id>

ARGV[1]  fencing_token    int64
ARGV[2]  alive            text
    Dispatchers, blanks between: the claims of others end. '' to end those whose time is over.
ARGV[3]  after            int64             The number of claims to pass over.
ARGV[4]  delivery_prefix  prefix delivery:
ARGV[5]  lane_prefix      prefix lane:
ARGV[6]  window_prefix    prefix window:
ARGV[7]  webhook_prefix   prefix webhook:
ARGV[8]  tenant_prefix    prefix tenant:

Replies, the first that applies:
  fenced | lapsed count next
Writes:
  On lapsed: deliveries, their claims, lanes and windows.
]]
local lease, lanes, claims, open = unpack(KEYS)
local fencing_token, alive, after, delivery_prefix, lane_prefix, window_prefix, webhook_prefix, tenant_prefix
  = unpack(ARGV)
-- End of the signature.
-- @include base/time, delivery/book
local now = now_ms()
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local book = book_new(now, {delivery = delivery_prefix, window = window_prefix, webhook = webhook_prefix,
  tenant = tenant_prefix, lane = lane_prefix})
local ROWS = 100
local from = tonumber(after)
-- Without the list of dispatchers only those whose time is over.
local ids = alive == '' and redis.call('ZRANGEBYSCORE', claims, '-inf', now, 'LIMIT', 0, ROWS)
  or redis.call('ZRANGE', claims, from, from + ROWS - 1)
local lapsed = {}
for _, id in ipairs(ids) do
  local delivery = book_delivery(book, id)
  local holder = delivery and delivery.claim and delivery.claim:match('^[^:]+') or ''
  if alive == '' or not (' ' .. alive .. ' '):find(' ' .. holder .. ' ', 1, true) then
    local subscription = delivery and book_subscription(book, delivery.subscription)
    if subscription then book_can_wait(book, subscription) end
    lapsed[#lapsed + 1] = {id = id, delivery = delivery, subscription = subscription}
  end
end
redis.call('ZCARD', lanes)
redis.call('HLEN', open)

-- Effects: none can fail.
for _, claim in ipairs(lapsed) do
  local delivery, subscription = claim.delivery, claim.subscription
  if not delivery or not delivery.claim then
    redis.call('ZREM', claims, claim.id)
  else
    book_land(claims, delivery, subscription)
    subscription.touched = true
    redis.call('HDEL', delivery.key, 'claim')
    redis.call('HSET', delivery.key, 'lost', delivery.lost + 1)
    if delivery.is_retry then
      book_wait(book, lanes, delivery, subscription, now)
    else
      redis.call('ZADD', lanes, now, delivery.lane)
    end
  end
end
book_write(book, open)
return {'lapsed', #lapsed, #ids == ROWS and from + ROWS - #lapsed or ''}
