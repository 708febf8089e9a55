--[[
days: the registry from which retention learns that a tenant has keys of a day. Registered once per tenant and day:
the tenant's record remembers the last one, so the usual request pays nothing.
]]
local function day_register(days, tenant_key, settings, tenant, day, now)
  if settings[TENANT_DAY] == day then return end
  if settings[TENANT_STATUS] then redis.call('HSET', tenant_key, 'day', day) end
  redis.call('ZADD', days, 'NX', now, tenant .. ':' .. day)
end
