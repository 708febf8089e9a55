--[[
usual_grace: the grace period of most reservations. Reservations with another one are also indexed by expiry, besides
the index by due time, so that lists can merge both.
]]
local USUAL_GRACE_MS = '5000'
