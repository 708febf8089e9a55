--[[
audit: appends entries to a tenant's audit chain, numbered without gaps, and puts the tenant on the list of chains to
be sealed.
]]

-- Called before the effects, so that appending cannot fail afterwards: raises where a key has another type. Returns the
-- function that appends an entry: function(now, entry), entry being names and values. event_log and outbox are nil where the
-- script emits no event.
local function audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)
  redis.call('XLEN', audit_log)
  redis.call('SCARD', unsealed)
  redis.call('ZCARD', days)
  if event_log then
    redis.call('XLEN', event_log)
    redis.call('XLEN', outbox)
  end
  local last = redis.call('HGET', chain, 'sequence') or '0'
  if #last > 15 or not (last == '0' or last:find('^[1-9]%d*$')) then error(chain .. ': the sequence is no number') end
  return function(now, entry)
    local sequence = redis.call('HINCRBY', chain, 'sequence', 1)
    redis.call('XADD', audit_log, '*', 'sequence', sequence, 'at_ms', now, unpack(entry))
    redis.call('SADD', unsealed, tenant)
  end
end
