--[[
policies: whether the policy that the caller has selected is still the one that counts. The tenant's record has the
version of its policies, drawn at random with each change; one comparison tells that none has changed since.
]]

-- nil, or the reply of a script that has written nothing. settings: with the version right after what all have.
local function policies_stale(settings, version, from_ms, until_ms, now)
  local present = settings[TENANT_POLICIES] or ''
  if present == version and now - from_ms >= 0 and now - until_ms < 0 then return nil end
  return {'stale', now, present}
end
