#!lua flags=no-writes,allow-oom
--[[
list_policies: a number of a tenant's policies in the order of their ids, from a position on.
KEYS[1] api_key hash    KEYS[2] tenant hash    KEYS[3] policies zset, lexical
Keys built: the policies that it names, read only.
ARGV[1] key_hash, '' for the admin key    ARGV[3] scope_pattern that is asked for, or ''    ARGV[5] after: an id, or ''
ARGV[2] tenant                            ARGV[4] policy_prefix                             ARGV[6] rows at most
Reply: unauthorized why | forbidden permission | scope_forbidden
  | listed scope_filter last complete(1|0), then the record of each; last is the id of the last one looked at
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, ledger/policies_read
local api_key, tenant_key, policies = unpack(KEYS)
local key_hash, tenant, scope_pattern, prefix, after, rows = unpack(ARGV)
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:read', scope_pattern, now_ms())
if refusal then return {refusal, why} end
return policies_read({'listed', filter or ''}, policies, prefix, after, rows)
