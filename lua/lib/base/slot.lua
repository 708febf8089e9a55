--[[
slot: for scripts that touch a key again after they removed it, or that continue after an error. While a slot moves to another
node of a cluster, Redis takes a key that does not exist for one that has moved, and raises an error. After the first write that
would leave half of the effects; where an error means a damaged key, a sound key would be reported.
]]

-- Called before the effects: raises while the slot of a key moves, since it reads a key that never exists. The caller then
-- repeats the call.
local function slot_check(key) redis.call('EXISTS', key .. ':absent') end
