#!lua flags=no-writes,allow-oom
--[[
admin_access: whether a tenant's key may act through the admin plane, for a request that failed before its own script.
KEYS[1] api_key hash    KEYS[2] tenant hash
ARGV[1] key_hash    ARGV[2] tenant    ARGV[3] permission    ARGV[4] scope, '' where the request has named none yet
Reply: unauthorized why | forbidden permission | scope_forbidden | granted
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access
local refusal, why = admin_access_refusal(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], now_ms())
if refusal then return {refusal, why} end
return {'granted'}
