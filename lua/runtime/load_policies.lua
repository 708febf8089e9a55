#!lua flags=no-writes,allow-oom
--[[
load_policies: a number of a tenant's policies and the version that they are at, for a replica to choose among them.
KEYS[1] tenant hash    KEYS[2] policies zset, lexical
Keys built: the policies that it names, read only.
ARGV[1] policy_prefix    ARGV[2] after: an id, or ''    ARGV[3] rows at most
Reply: loaded version last complete(1|0), then the record of each; last is the id of the last one looked at
]]
-- @include ledger/policies_read
local tenant_key, policies = unpack(KEYS)
local prefix, after, rows = unpack(ARGV)
return policies_read({'loaded', redis.call('HGET', tenant_key, 'policies') or ''}, policies, prefix, after, rows)
