--[[
closing_child: emits the event and writes the audit entry of one thing that a closed tenant owned, both with the
correlation id of the close. facts: names and values, the same in both.
]]

-- Returns the data of the event.
local function closing_data(facts)
  local data = {}
  for i = 1, #facts, 2 do data[i], data[i + 1] = 'data.' .. facts[i], facts[i + 1] end
  return data
end

-- Writes the audit entry.
local function closing_audit(closing, audit_append, now, event_type, resource_type, resource_id, facts)
  local entry = {'operation', 'tenant_close_cascade', 'status', 200, 'resource_type', resource_type,
    'resource_id', resource_id}
  for name, value in closing.cause:gmatch('(%S+) ([^\n]*)') do
    if name == 'source_ip' or name == 'request_id' or name == 'trace_id' then
      entry[#entry + 1], entry[#entry + 2] = name, value
    end
  end
  for i = 1, #facts, 2 do entry[#entry + 1], entry[#entry + 2] = 'metadata.' .. facts[i], facts[i + 1] end
  for _, pair in ipairs({{'cascade', 'tenant_close'}, {'event_kind', event_type},
    {'correlation_id', closing.correlation_id}}) do
    entry[#entry + 1], entry[#entry + 2] = 'metadata.' .. pair[1], pair[2]
  end
  audit_append(now, entry)
end
