#!lua flags=allow-oom
--[[
end_replay: gives a claim back that led to nothing.
KEYS[1] lock  string    ARGV[1] token
Reply: ended | lost
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end

-- Effects: none can fail.
redis.call('DEL', KEYS[1])
return {'ended'}
