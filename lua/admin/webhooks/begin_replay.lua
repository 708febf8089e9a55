#!lua
--[[
begin_replay: claims the right to choose events for a replay of a subscription. The claim lapses, should the replica die.
KEYS[1] lock  string    ARGV[1] token    ARGV[2] claim_ms
Reply: locked | begun
]]
local lock, token, claim_ms = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', lock) == 1 then return {'locked'} end

-- Effects: none can fail.
redis.call('SET', lock, token, 'PX', claim_ms)
return {'begun'}
