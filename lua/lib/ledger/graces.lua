--[[
graces: keeps with a tenant the shortest and the longest grace of its active reservations, so that a list by expiry knows
how far due times lie behind expiries.
]]

-- What to store before a reservation with this grace is held; nil where the stored range includes it.
local function graces_widened(stored, grace_ms, due)
  local shortest, longest = (stored or ''):match('^(%d+) (%d+)$')
  local grace = tonumber(grace_ms)
  if shortest and tonumber(shortest) <= grace and grace <= tonumber(longest) then return nil end
  if redis.call('EXISTS', due) == 0 then return grace_ms .. ' ' .. grace_ms end
  -- Nothing is known of those that are held.
  if not shortest then return '0 60000' end
  return math.min(shortest, grace) .. ' ' .. math.max(longest, grace)
end
