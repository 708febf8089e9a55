--[[
closing_request: keeps the audit entry of the request that closed a tenant. It waits in the intent until the request's
part is over, because it says how far the cascade came; the process that ends that part appends it and removes it in one step,
so it is appended once.
]]

-- Keeps the entry.
local function closing_request_keep(key, entry)
  local fields = {'audit', #entry}
  for i, word in ipairs(entry) do fields[#fields + 1], fields[#fields + 2] = 'audit.' .. i, word end
  redis.call('HSET', key, unpack(fields))
end

-- Returns the counts closed so far, as names and values.
local function closing_summary(key, in_progress)
  local counts = redis.call('HMGET', key, 'budgets_closed', 'webhooks_disabled', 'api_keys_revoked',
    'reservations_released', 'failures', 'failed')
  local summary = {'budgets_closed', counts[1] or 0, 'webhooks_disabled', counts[2] or 0, 'api_keys_revoked',
    counts[3] or 0, 'reservations_released', counts[4] or 0, 'in_progress', in_progress and 'true' or 'false',
    'failures_count', counts[5] or 0}
  if counts[6] then summary[13], summary[14] = 'failed_resources', counts[6] end
  return summary
end

-- Appends the entry that waits, if there is one.
local function closing_request_audit(key, audit_append, now, status, in_progress)
  local count = redis.call('HGET', key, 'audit')
  if not count then return end
  local entry, names = {}, {'audit'}
  for i = 1, tonumber(count) do
    names[i + 1] = 'audit.' .. i
    entry[i] = redis.call('HGET', key, names[i + 1])
  end
  entry[#entry + 1], entry[#entry + 2] = 'status', status
  local summary = closing_summary(key, in_progress)
  for i = 1, #summary, 2 do
    entry[#entry + 1], entry[#entry + 2] = 'metadata.cascade.' .. summary[i], summary[i + 1]
  end
  redis.call('HDEL', key, unpack(names))
  audit_append(now, entry)
end
