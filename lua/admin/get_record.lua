#!lua flags=no-writes,allow-oom
--[[
get_record: one record of the admin plane as it is.
KEYS[1] record hash
Reply: not_found | found now_ms record…
]]
-- @include base/time
local record = redis.call('HGETALL', KEYS[1])
if #record == 0 then return {'not_found'} end
return {'found', now_ms(), unpack(record)}
