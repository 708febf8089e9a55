--[[
denials: bounds the events of denials, which cost the caller nothing: above a rate per tenant and minute they are only
counted, exactly, and one event for the minute says how many. The hash of the tenant keeps the minute, its count, and
the facts and the context of its first denial beyond the rate: not those of the request that emits the rollup.
]]
-- @include log/events, base/counter, base/slot

-- Called before the effects: raises if a key that the others write has another type, or cannot be written anew.
local function denials_check(key, index, event_log, outbox)
  slot_check(key)
  local counted = redis.call('HMGET', key, 'count', 'suppressed')
  for at = 1, 2 do counter_check(key, counted[at] or '0') end
  redis.call('ZCARD', index)
  redis.call('XLEN', event_log)
  redis.call('XLEN', outbox)
end

-- Emits the rollup of a past minute, if it has one.
local function denials_flush(events, key, index)
  local kept = redis.call('HGETALL', key)
  local scope, suppressed, context, kind, data = nil, nil, nil, nil, {}
  for i = 1, #kept, 2 do
    if kept[i] == 'suppressed' then suppressed = kept[i + 1]
    elseif kept[i] == 'scope' then scope = kept[i + 1]
    elseif kept[i] == 'context' then context = kept[i + 1]
    elseif kept[i] == 'kind' then kind = kept[i + 1]
    elseif kept[i]:find('^data%.') then data[#data + 1], data[#data + 2] = kept[i], kept[i + 1] end
  end
  if not suppressed then return end
  data[#data + 1], data[#data + 2] = 'metadata.count', suppressed
  local present = {events.cause, events.context, events.kind}
  events.cause, events.context, events.kind = nil, context or events.context, kind
  event_append(events, 'reservation.denied', scope, data)
  events.cause, events.context, events.kind = present[1], present[2], present[3]
  redis.call('DEL', key)
  redis.call('ZREM', index, events.tenant)
end

-- Emits a denial, or counts it.
local function denial_append(events, key, index, per_minute, scope, data)
  local minute = events.now - events.now % 60000
  local kept = redis.call('HMGET', key, 'minute_ms', 'count')
  if tonumber(kept[1] or 0) ~= minute then
    denials_flush(events, key, index)
    redis.call('HSET', key, 'minute_ms', minute, 'count', 0)
  end
  if redis.call('HINCRBY', key, 'count', 1) <= tonumber(per_minute) then
    return event_append(events, 'reservation.denied', scope, data)
  end
  if redis.call('HINCRBY', key, 'suppressed', 1) == 1 then
    redis.call('HSET', key, 'scope', scope, 'context', events.context, 'kind', events.kind, unpack(data))
    redis.call('ZADD', index, minute + 60000, events.tenant)
  end
end

-- Returns the facts of a denial. budget and scope: of the ledger that blocks, or nil. request: action and subject, names and
-- values.
local function denial_facts(reason, unit, amount, budget, scope, request)
  local data = {'data.unit', unit, 'data.reason_code', reason, 'data.requested_amount', amount}
  if budget then
    data[7], data[8], data[9], data[10] = 'data.remaining', budget.remaining, 'data.blocked_by_scope', scope
  end
  for i = 1, #request, 2 do
    data[#data + 1], data[#data + 2] = 'data.' .. request[i], request[i + 1]
  end
  return data
end
