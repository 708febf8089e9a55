#!lua flags=no-writes,allow-oom
--[[
introspect: what an API key may do.
KEYS[1] api_key  hash    KEYS[2] tenant  hash
ARGV[1] key_hash    ARGV[2] tenant
Reply: unauthorized why | introspected permissions scope_filter, each false where it is missing
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access
local refusal, why, filter = admin_access_refusal(KEYS[1], KEYS[2], ARGV[1], ARGV[2], '', '', now_ms())
if refusal then return {refusal, why} end
return {'introspected', redis.call('HGET', KEYS[1], 'permissions'), filter}
