#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_key_checks.rs.
Says what an API key may do.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>

ARGV[1]  key_hash  text  Of the API key; empty for the admin key.
ARGV[2]  tenant    text

Replies, the first that applies:
  unauthorized why | introspected permissions_scope_filter
Writes:
  Nothing.
]]
local api_key, tenant_key = unpack(KEYS)
local key_hash, tenant = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access
local refusal, why, filter = admin_access_refusal(api_key, tenant_key, key_hash, tenant, '', '', now_ms())
if refusal then return {refusal, why} end
return {'introspected', redis.call('HGET', api_key, 'permissions'), filter}
