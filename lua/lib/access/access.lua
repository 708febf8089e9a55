--[[
access: checks whether an API key may do something. The record is found by the visible prefix of the key; the secret
is compared as a digest, before anything else about the key is answered. Permissions are stored with a blank on either
side.
]]

local function access_read(api_key)
  return redis.call('HMGET', api_key, 'hash', 'tenant', 'status', 'expires_at_ms', 'permissions', 'scope_filter')
end

-- Returns nil and the scope filter of the key, or the refusal `unauthorized` or `forbidden`, and why.
local function access_refusal(api_key, key_hash, tenant, permission, now)
  local hash, owner, status, expires_at_ms, permissions, filter = unpack(access_read(api_key))
  if not hash then return 'unauthorized', 'KEY_NOT_FOUND' end
  if hash ~= key_hash then return 'unauthorized', 'INVALID_KEY' end
  if status ~= 'ACTIVE' then return 'unauthorized', 'KEY_REVOKED' end
  if expires_at_ms and now >= tonumber(expires_at_ms) then return 'unauthorized', 'KEY_EXPIRED' end
  if owner ~= tenant then return 'unauthorized', 'KEY_NOT_OWNED_BY_TENANT' end
  permissions = permissions or ''
  if permission == '' or permissions:find(' ' .. permission .. ' ', 1, true) then return nil, filter end
  -- admin:read grants every `…:read`, admin:write every `…:write`; no reservations:* ends so.
  local kind = permission:match(':(%l+)$')
  if (kind == 'read' or kind == 'write') and permissions:find(' admin:' .. kind .. ' ', 1, true) then
    return nil, filter
  end
  return 'forbidden', permission
end
