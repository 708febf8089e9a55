--[[
webhook: reads the record of a subscription. The replica seals its secrets; no reply that a client gets holds them.
]]

local WEBHOOK_SECRETS = {signing_secret = true, headers = true}

-- Returns the names and values of the record without its secrets; empty where there is none.
local function webhook_without_secrets(webhook)
  local stored, fields = redis.call('HGETALL', webhook), {}
  for i = 1, #stored, 2 do
    if not WEBHOOK_SECRETS[stored[i]] then fields[#fields + 1], fields[#fields + 2] = stored[i], stored[i + 1] end
  end
  return fields
end
