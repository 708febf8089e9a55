--[[
days: registers for retention that a tenant has keys of a day. Once per tenant and day: the tenant's record keeps the
last one, so most requests pay nothing.
]]
-- @include access/tenant

-- Called before the effects: raises where day_register would.
local function day_check(days, settings, day)
  if settings[TENANT_DAY] ~= day then redis.call('ZCARD', days) end
end

local function day_register(days, tenant_key, settings, tenant, day, now)
  if settings[TENANT_DAY] == day then return end
  redis.call('ZADD', days, 'NX', now, tenant .. ':' .. day)
  if settings[TENANT_STATUS] then redis.call('HSET', tenant_key, 'day', day) end
  settings[TENANT_DAY] = day
end
