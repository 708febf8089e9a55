--[[
rates: counts how often a scope has reserved and committed under a policy in the current UTC minute, and how many bytes
of client-chosen data the tenant's requests have stored. One hash per tenant holds the counts of one minute; the first count of
the next one replaces it, and a TTL removes the last.
]]
-- @include base/slot

local RATES_MINUTE_MS = 60000

-- Returns the counts of the current minute, in the order of the arguments: reserved, committed or bytes. An unreadable count
-- is 0.
local function rates_read(rates, now, policy_id, scope_path, ...)
  local counts = {key = rates, minute_ms = now - now % RATES_MINUTE_MS, fields = {...}}
  counts.until_ms = counts.minute_ms + RATES_MINUTE_MS
  for i, what in ipairs(counts.fields) do
    if what ~= 'bytes' then counts.fields[i] = what .. ' ' .. policy_id .. ' ' .. scope_path end
  end
  local found = redis.call('HMGET', rates, 'minute_ms', unpack(counts.fields))
  counts.present = tonumber(found[1]) == counts.minute_ms
  -- rates_count removes the counts of an earlier minute before it writes its own.
  if found[1] and not counts.present then slot_check(rates) end
  for i = 1, #counts.fields do counts[i] = counts.present and tonumber(found[i + 1]) or 0 end
  return counts
end
