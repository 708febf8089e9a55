--[[
closing: reads and moves the intent of a tenant's close. It exists from the change of the tenant's status until all that
the tenant owns has ended. Each step does a bounded part of the phase that the intent is in and writes how far it came
in the same script, so any process resumes where another stopped, and two at once do nothing twice. Once the status is
CLOSED nothing is added to what the tenant owns, so a place in a list is kept as a rank.
]]

local CLOSING_FAILED_MAX = 100 -- resources that could not be closed are named up to this number

-- Checks the figures before a step, so that it cannot fail on the intent after its first write.
local function closing_check(key)
  local figures = {'offset', 'failures', 'budgets_closed', 'webhooks_disabled', 'api_keys_revoked', 'reservations_released'}
  local kept = redis.call('HMGET', key, unpack(figures))
  for i = 1, #figures do
    if kept[i] and not kept[i]:find('^%d+$') then error(key .. ': ' .. figures[i] .. ' is no number') end
  end
end

-- Returns the intent, or nil and the reply that ends the script: none or at. Its context is that of the request that closed.
local function closing_read(key, phase)
  local fields = redis.call('HMGET', key, 'phase', 'offset', 'context', 'correlation_id', 'failures', 'failed')
  if not fields[1] then return nil, {'none'} end
  if fields[1] ~= phase then return nil, {'at', fields[1]} end
  closing_check(key)
  return {
    key = key, offset = tonumber(fields[2] or 0), cause = fields[3] or '', correlation_id = fields[4] or '',
    context = (fields[3] or '') .. '\ncorrelation_id ' .. (fields[4] or ''),
    failures = tonumber(fields[5] or 0), failed = fields[6] or '',
  }
end

-- Records a resource that cannot be closed: the others are closed, and it is retried later.
local function closing_failed(closing, what)
  closing.failures = closing.failures + 1
  if closing.failures <= CLOSING_FAILED_MAX then
    closing.failed = closing.failed .. (closing.failed == '' and '' or ' ') .. what
  end
end

-- Writes how far the walk through a list came, and moves to the next phase after a page that was not full.
local function closing_advance(closing, phase, examined, rows, next_phase, count_field, count)
  local full = examined == tonumber(rows)
  local fields = {'phase', full and phase or next_phase, 'offset', full and closing.offset + examined or 0}
  if closing.failures > 0 then
    fields[5], fields[6], fields[7], fields[8] = 'failures', closing.failures, 'failed', closing.failed
  end
  redis.call('HSET', closing.key, unpack(fields))
  if count > 0 then redis.call('HINCRBY', closing.key, count_field, count) end
  return {'at', full and phase or next_phase}
end
