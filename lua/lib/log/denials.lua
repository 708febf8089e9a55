--[[
denials: bounds the events of denials, which cost the caller nothing: above a rate per tenant and minute they are only
counted, exactly, and one event for the minute says how many. The hash of the tenant keeps the minute, its count, and
the facts and the context of its first denial beyond the rate: not those of the request that emits the rollup. What budgets that
observe would have denied is counted apart, in fields with a prefix.
]]
-- @include log/events, base/counter, base/slot

-- The types of events, and the prefix of the fields of each.
local DENIALS = {['reservation.denied'] = '', ['reservation.would_deny'] = 'would.'}

-- Called before the effects: raises if a key that the others write has another type, or cannot be written anew.
local function denials_check(key, index, event_log, outbox)
  slot_check(key)
  local counted = redis.call('HMGET', key, 'count', 'suppressed', 'would.count', 'would.suppressed')
  for at = 1, 4 do counter_check(key, counted[at] or '0') end
  redis.call('ZCARD', index)
  redis.call('XLEN', event_log)
  redis.call('XLEN', outbox)
end

-- Emits the rollup of one type for a past minute, if it has one. kept: names and values.
local function denials_flush_one(events, kept, event_type, prefix)
  local fields, data = {}, {}
  for i = 1, #kept, 2 do
    local name = kept[i]:sub(1, #prefix) == prefix and kept[i]:sub(#prefix + 1) or ''
    fields[name] = kept[i + 1]
    if name:find('^data%.') then data[#data + 1], data[#data + 2] = name, kept[i + 1] end
  end
  if not fields.suppressed then return end
  data[#data + 1], data[#data + 2] = 'metadata.count', fields.suppressed
  local present = {events.cause, events.context, events.kind}
  events.cause, events.context, events.kind = nil, fields.context or events.context, fields.kind
  event_append(events, event_type, fields.scope, data)
  events.cause, events.context, events.kind = present[1], present[2], present[3]
end

-- Emits the rollups of a past minute, if it has some.
local function denials_flush(events, key, index)
  local kept = redis.call('HGETALL', key)
  for event_type, prefix in pairs(DENIALS) do denials_flush_one(events, kept, event_type, prefix) end
  redis.call('DEL', key)
  redis.call('ZREM', index, events.tenant)
end

-- Emits a denial of a type, or counts it.
local function denial_append(events, key, index, per_minute, scope, data, event_type)
  local minute, prefix = events.now - events.now % 60000, DENIALS[event_type]
  if tonumber(redis.call('HGET', key, 'minute_ms') or 0) ~= minute then
    denials_flush(events, key, index)
    redis.call('HSET', key, 'minute_ms', minute)
  end
  if redis.call('HINCRBY', key, prefix .. 'count', 1) <= tonumber(per_minute) then
    return event_append(events, event_type, scope, data)
  end
  if redis.call('HINCRBY', key, prefix .. 'suppressed', 1) == 1 then
    local fields = {'scope', scope, 'context', events.context, 'kind', events.kind, unpack(data)}
    for i = 1, #fields, 2 do fields[i] = prefix .. fields[i] end
    redis.call('HSET', key, unpack(fields))
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
