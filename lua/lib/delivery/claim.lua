--[[
claim: gives a delivery to a dispatcher for one attempt. The attempt counts from here, before it is sent: so a delivery that
crashes its dispatcher runs out of attempts.

The lane is noted beside the claim, so that the end of the claim finds lane and subscription even if the record is damaged or gone.
For a retry, `<subscription>:retries` and a blank precede it.
]]
-- @include delivery/state

-- Effect. Returns what the dispatcher needs, one value after the other. claim: dispatcher and claim_ms.
local function claim_write(state, claim, delivery, subscription)
  local attempts, claimed, claimed_lanes = delivery.attempts + 1, state.claimed, state.claimed_lanes
  -- With the time, because an attempt that sent nothing gives its number back: a late end must not match another claim.
  local number = integer_text(attempts)
  local token = claim.dispatcher .. ':' .. number .. ':' .. state.now_text
  redis.call('HSET', delivery.key, 'attempts', number, 'claim', token)
  claimed[#claimed + 1], claimed[#claimed + 2] = integer_text(state.now + claim.claim_ms), delivery.id
  claimed_lanes[#claimed_lanes + 1] = delivery.id
  claimed_lanes[#claimed_lanes + 1] = (delivery.is_retry and subscription.id .. ':retries ' or '') .. delivery.lane
  subscription.triggered = true
  state_fly(delivery, subscription, 1)
  if delivery.is_retry then state_leave_lane(state, delivery, subscription) end
  local owner = subscription.owner
  return delivery.id, token, subscription.id, delivery.lane, owner.name, owner.mark, delivery.place,
    delivery.failures or 0, attempts, state.now
end
