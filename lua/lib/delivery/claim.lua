--[[
claim: gives a delivery to a dispatcher for one attempt. The attempt counts from here, before it is sent: so a delivery that
crashes its dispatcher runs out of attempts.

A first attempt of the operator's names its lane, without the subscription, as `source`, so that the end of the claim finds the lane
even if the place in the record is damaged meanwhile. Those of a tenant need not, since they have one lane.
]]
-- @include delivery/state

-- Effect. Returns what the dispatcher needs, one value after the other. claim: dispatcher and claim_ms.
local function claim_write(state, claim, delivery, subscription)
  local attempts, claimed = delivery.attempts + 1, state.claimed
  -- With the time, because an attempt that sent nothing gives its number back: a late end must not match another claim.
  local number = integer_text(attempts)
  local token = claim.dispatcher .. ':' .. number .. ':' .. state.now_text
  redis.call('HSET', delivery.key, 'attempts', number, 'claim', token)
  if subscription.owner.name == '__system__' and not delivery.is_retry then
    redis.call('HSET', delivery.key, 'source', delivery.lane:sub(#subscription.id + 2))
  end
  claimed[#claimed + 1], claimed[#claimed + 2] = integer_text(state.now + claim.claim_ms), delivery.id
  subscription.triggered = true
  state_fly(delivery, subscription, 1)
  if delivery.is_retry then state_leave_lane(state, delivery, subscription) end
  local owner = subscription.owner
  return delivery.id, token, subscription.id, delivery.lane, owner.name, owner.mark, delivery.place, delivery.trace,
    delivery.failures or 0, attempts, delivery.at_ms, state.now
end
