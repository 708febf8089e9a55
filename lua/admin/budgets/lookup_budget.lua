#!lua flags=no-writes,allow-oom
--[[
lookup_budget: one ledger as it is.
KEYS[1] api_key hash    KEYS[2] tenant hash    KEYS[3] budget hash
ARGV[1] key_hash, '' for the admin key    ARGV[2] tenant    ARGV[3] scope    ARGV[4] foreign: 1 where the scope is of
another tenant than ARGV[2]
Reply, first that holds: unauthorized why | forbidden permission | scope_forbidden | foreign | not_found | found record…
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access
local api_key, tenant_key, budget = unpack(KEYS)
local key_hash, tenant, scope, foreign = unpack(ARGV)
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:read', scope, now_ms())
if refusal then return {refusal, why} end
if foreign == '1' then return {'foreign'} end
local record = redis.call('HGETALL', budget)
if #record == 0 then return {'not_found'} end
return {'found', unpack(record)}
