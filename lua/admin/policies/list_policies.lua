#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/policies.rs.
Reads a number of a tenant's policies in the order of their ids, from a position on: as many as a number of bytes
allows, but one at least. last: the last id that was looked at.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  policies    zset  policies:<tenant>
built    read              hash  policy:<policy_id>

ARGV[1]  policy_prefix  prefix policy:
ARGV[2]  key_hash       text            Of the API key; empty for the admin key.
ARGV[3]  tenant         text
ARGV[4]  scope_pattern  text or ''      The pattern filter of the request.
ARGV[5]  after          text or ''      An id.
ARGV[6]  rows           int64           How many at most.
ARGV[7]  bytes          int64

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | listed scope_filter last complete records
Writes:
  Nothing.
]]
local api_key, tenant_key, policies = unpack(KEYS)
local policy_prefix, key_hash, tenant, scope_pattern, after, rows, bytes = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, ledger/policies_read
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'policies:read', scope_pattern, now_ms())
if refusal then return {refusal, why} end
return policies_read({'listed', filter or ''}, policies, policy_prefix, after, rows, bytes)
