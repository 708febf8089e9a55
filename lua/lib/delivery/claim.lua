--[[
claim: gives a delivery to a dispatcher for one attempt. The attempt counts from here, before it is sent: a delivery that
ends its dispatcher must run out of attempts.
]]
-- @include delivery/book

-- Effect. Appends to reply what the dispatcher needs. claim: dispatcher and claim_ms.
local function claim_write(book, claims, claim, delivery, subscription, reply)
  local attempts = delivery.attempts + 1
  -- With the time, because what was no attempt gives its number back: a late booking must not end another claim.
  local number = integer_text(attempts)
  local token = claim.dispatcher .. ':' .. number .. ':' .. book.now_text
  redis.call('HSET', delivery.key, 'attempts', number, 'claim', token)
  redis.call('ZADD', claims, integer_text(book.now + claim.claim_ms), delivery.id)
  if not subscription.triggered then book_stamp(book, subscription, 'last_triggered_at_ms') end
  subscription.triggered = true
  subscription.flying, subscription.touched = subscription.flying + 1, true
  if delivery.is_retry then
    subscription.retrying = subscription.retrying + 1
    book_leave_lane(book, delivery, subscription)
  end
  for _, value in ipairs({delivery.id, token, subscription.id, subscription.owner, subscription.mark, delivery.place,
    delivery.trace, delivery.failures, attempts, delivery.at_ms, book.now}) do
    reply[#reply + 1] = value
  end
end
