--[[
audit: appends one entry to a tenant's audit chain, numbered without gaps. Whoever seals the chain adds the hashes.
entry: names and values.
]]
local function audit_append(audit_log, chain, now, entry)
  local sequence = redis.call('HINCRBY', chain, 'sequence', 1)
  redis.call('XADD', audit_log, '*', 'sequence', sequence, 'at_ms', now, unpack(entry))
end
