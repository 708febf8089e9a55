--[[
tenant: reads the record that guards a tenant's mutations and holds its defaults. A tenant without a record is not
guarded; a record whose status cannot be read guards against everything.
]]

-- Places of the settings; those from TENANT_POLICIES on only as far as the script names the fields. An absent one is false.
local TENANT_STATUS, TENANT_DAY, TENANT_THRESHOLDS = 1, 2, 3
local TENANT_POLICIES, TENANT_BYTES_FULL, TENANT_OVERAGE, TENANT_TTL, TENANT_MAX_TTL, TENANT_EXTENSIONS = 4, 5, 6, 7, 8, 9

local function tenant_read(tenant_key, ...)
  return redis.pcall('HMGET', tenant_key, 'status', 'day', 'thresholds', ...)
end

-- Returns nil or the refusal: tenant_unreadable, tenant_closed or tenant_suspended. Then the settings.
local function tenant_refusal(tenant_key, ...)
  local settings = tenant_read(tenant_key, ...)
  local status = settings[TENANT_STATUS]
  if status == 'ACTIVE' then return nil, settings end
  if status == 'CLOSED' then return 'tenant_closed', settings end
  if status == 'SUSPENDED' then return 'tenant_suspended', settings end
  -- That the slot moves to another node says nothing about the record.
  if settings.err and not settings.err:find('WRONGTYPE', 1, true) then error(settings) end
  if settings.err or status or redis.call('EXISTS', tenant_key) == 1 then return 'tenant_unreadable', settings end
  return nil, settings
end
