#!lua flags=no-writes,allow-oom
--[[
authenticate: whether an API key is good, for a request that failed before its own script.
KEYS[1] api_key hash    ARGV[1] key_hash    ARGV[2] tenant    ARGV[3] permission or ''
Reply: unauthorized why | forbidden permission | authenticated
]]
-- @include base/time, access/access
local refusal, why = access_refusal(KEYS[1], ARGV[1], ARGV[2], ARGV[3], now_ms())
if refusal then return {refusal, why} end
return {'authenticated'}
