--[[
tenant_flip: makes the writes and events of a change of a tenant's status, and the intent with which its close starts.
]]
-- @include log/events

-- Adds to `set`, names and values of the record, what a change of status brings with it. Returns the correlation id of the
-- close, the first one for good, and whether its end was emitted.
local function tenant_flip_fields(tenant_key, wanted, flips, now, correlation_id, set)
  local closed_at_ms, emitted, first_correlation_id =
    unpack(redis.call('HMGET', tenant_key, 'closed_at_ms', 'closed_told', 'close_correlation_id'))
  if flips then set[#set + 1], set[#set + 2] = 'status', wanted end
  if flips and wanted == 'SUSPENDED' then set[#set + 1], set[#set + 2] = 'suspended_at_ms', now end
  if wanted == 'CLOSED' and not closed_at_ms then set[#set + 1], set[#set + 2] = 'closed_at_ms', now end
  if wanted == 'CLOSED' and not first_correlation_id then
    first_correlation_id = correlation_id
    set[#set + 1], set[#set + 2] = 'close_correlation_id', correlation_id
  end
  return first_correlation_id, emitted
end

-- Stores the intent. parent_correlation_id is what tenant.closed carries where that differs, or ''.
local function tenant_close_begin(closing, closings, tenant, now, close)
  redis.call('HSET', closing, 'phase', 'reservations', 'offset', 0, 'begun_ms', now, 'context', close.context,
    'correlation_id', close.correlation_id)
  if not close.emitted then
    redis.call('HSET', closing, 'parent', '1', 'previous_status', close.previous_status)
    if close.parent_correlation_id ~= '' then
      redis.call('HSET', closing, 'parent_correlation_id', close.parent_correlation_id)
    end
  end
  redis.call('ZADD', closings, now + close.request_part_ms, tenant)
end

-- Emits the event of a change of status, if it has one: tenant.closed comes at the end of the close.
local function tenant_flip_event(events, status, wanted, changed_fields)
  if wanted == 'CLOSED' then return end
  event_append(events, wanted == 'SUSPENDED' and 'tenant.suspended' or 'tenant.reactivated', nil,
    {'data.changed_fields', changed_fields, 'data.previous_status', status, 'data.new_status', wanted})
end
