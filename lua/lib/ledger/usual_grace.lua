--[[
usual_grace: the grace period of most reservations. Those of another one have an index by expiry besides that by due time,
so that lists can merge both.
]]
local USUAL_GRACE_MS = '5000'
