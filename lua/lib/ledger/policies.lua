--[[
policies: checks whether the policy that the caller chose still applies. The tenant's record has the version of its
policies, drawn at random with each change; one comparison shows that none has changed.
]]
-- @include access/tenant

-- Returns nil, or the reply that ends the script. settings: read with the field `policies`.
local function policies_stale(settings, version, from_ms, until_ms, now)
  local present = settings[TENANT_POLICIES] or ''
  if present == version and now - from_ms >= 0 and now - until_ms < 0 then return nil end
  return {'stale', now, present}
end
