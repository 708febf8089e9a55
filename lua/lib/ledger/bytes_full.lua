--[[
bytes_full: refuses requests of a tenant that has stored as many bytes of its own as a minute admits. Commits and extensions
are never refused for it; they note it, and it stops what would make more of them, small ones too.
]]
local BYTES_MINUTE_MS = 60000

-- Returns nil, or the reply that ends the script. A note that is ahead of its minute is from before the clock was set back.
local function bytes_full_reply(note, now)
  local until_ms, max_bytes, present = note:match('^(%d+) (%d+) (%d+)$')
  until_ms = tonumber(until_ms)
  if not until_ms or now >= until_ms or until_ms - now > BYTES_MINUTE_MS then return nil end
  return {'bytes_limited', now, until_ms, max_bytes, present}
end
