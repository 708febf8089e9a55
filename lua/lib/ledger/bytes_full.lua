--[[
bytes_full: refuses requests of a tenant that has stored as many client-chosen bytes as a minute allows. Commits and
extensions are never refused for it. Where they exceed the limit, they mark the tenant, and until the minute ends all
its new reservations and usage events are refused, small ones too.
]]
local BYTES_MINUTE_MS = 60000

-- Returns nil, or the reply that ends the script. A mark more than a minute ahead is from before the clock was set back.
local function bytes_full_reply(mark, now)
  local until_ms, max_bytes, present = mark:match('^(%d+) (%d+) (%d+)$')
  until_ms = tonumber(until_ms)
  if not until_ms or now >= until_ms or until_ms - now > BYTES_MINUTE_MS then return nil end
  return {'bytes_limited', now, until_ms, max_bytes, present}
end
