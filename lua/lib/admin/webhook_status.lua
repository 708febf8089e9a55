--[[
webhook_status: writes the fields that change with the status of a subscription, for the dispatchers that deliver its events. An
event is for a subscription if it was ACTIVE when the event was emitted; a delivery that was queued before it stopped
being ACTIVE fails. The mark shows dispatchers, which cache subscriptions, that one has changed.
]]

-- Called before the effects. A mark of another type counts as none, and is replaced.
local function webhooks_mark_read(webhooks_mark)
  local mark = redis.pcall('GET', webhooks_mark)
  return type(mark) == 'string' and mark or ''
end

-- Called after each change of one of the owner's subscriptions. before: of webhooks_mark_read. Where the change removes one, the
-- caller has checked the slot.
local function webhooks_mark_renew(webhooks_mark, webhooks, before, subscription_id)
  if redis.call('ZCARD', webhooks) == 0 then return redis.call('DEL', webhooks_mark) end
  local time = redis.call('TIME')
  local text = table.concat({before, subscription_id, time[1], time[2]}, ' ')
  redis.call('SET', webhooks_mark, redis.sha1hex(text):sub(1, 20))
end

-- Called where a subscription has become ACTIVE. place: its entry in the outbox.
local function webhook_activated(webhook, place, now)
  redis.call('HSET', webhook, 'since', place, 'since_ms', now)
end

-- Called where the deliveries that are open cannot be attempted any more. Those that wait for a further attempt would
-- otherwise end only when it is due.
local function webhook_deliveries_end(lanes, subscription_id)
  redis.call('ZADD', lanes, 'XX', 0, subscription_id .. ':retries')
end

-- Called where a subscription that is not deleted has stopped being ACTIVE. epoch: of the record, as it was read.
local function webhook_deactivated(webhook, epoch, lanes, subscription_id)
  redis.call('HSET', webhook, 'epoch', (tonumber(epoch) or 0) + 1)
  webhook_deliveries_end(lanes, subscription_id)
end
