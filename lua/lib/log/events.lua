--[[
events: emits the events of an operation: appends the facts of each event once to the tenant's log of the day, and one
pointer for all of them to the partition's outbox. Readers render the envelope of an event from its facts.
]]

-- context: facts that every event of the operation has, lines of name and value: 'request_id req_…'. kind, of the action,
-- may be nil. The client chose it, so it is no line of the context: a line break in it would forge the next.
local function events_new(log, outbox, tenant, day, now, context, kind)
  return {log = log, outbox = outbox, tenant = tenant, day = day, now = now, context = context, kind = kind,
    first = false, count = 0}
end

-- Appends the first entry of an operation to a stream, and returns its id. Its number is that of the trace, unless the stream has a
-- later entry: an event that follows the loss of another one, under a clock that is behind, must not get the same entry, and so the
-- same id.
local function events_add(stream, now, number, ...)
  local id = number and redis.pcall('XADD', stream, ('%d-%d'):format(now, number), ...)
  return type(id) == 'string' and id or redis.call('XADD', stream, '*', ...)
end

-- Emits an event. scope may be nil. data: names and values; the names begin with `data.` or `metadata.`.
local function event_append(events, event_type, scope, data)
  local cause = events.cause
  if not cause then
    -- Once per operation, however many events it emits.
    cause = events.kind and {'kind', events.kind} or {}
    for name, value in events.context:gmatch('(%S+) ([^\n]*)') do
      cause[#cause + 1], cause[#cause + 2] = name, value
      -- 16 bits: rows of views have room for five digits.
      if name == 'trace_id' then events.number = tonumber(value:sub(-4), 16) end
    end
    events.cause = cause
  end
  local facts = {'type', event_type, 'at_ms', events.now}
  if scope then facts[5], facts[6] = 'scope', scope end
  local count = #facts
  for i = 1, #cause do facts[count + i] = cause[i] end
  count = count + #cause
  for i = 1, #data do facts[count + i] = data[i] end
  events.count = events.count + 1
  if events.first then
    -- The next number at the same time: the clock may have moved on, and its first number says nothing of the trace.
    redis.call('XADD', events.log, events.first:match('^%d+') .. '-*', unpack(facts))
  else
    events.first = events_add(events.log, events.now, events.number, unpack(facts))
  end
end

-- Appends the pointer, and returns its place in the outbox.
local function events_point(events)
  if events.count == 0 then return end
  return events_add(events.outbox, events.now, events.number, 'tenant', events.tenant, 'day', events.day,
    'first', events.first, 'count', events.count)
end
