#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/mod.rs.
Checks whether a tenant's API key may act through the admin plane, for a list, or a request that failed before its own
script.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>

ARGV[1]  key_hash    text        Of the API key; empty for the admin key.
ARGV[2]  tenant      text
ARGV[3]  permission  text
ARGV[4]  scope       text        '' where the request has named none yet.
ARGV[5]  subscribes  text or ''
    The scope filter of the subscription that is to be made, after =; '' for any other request.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | granted scope_filter
Writes:
  Nothing.
]]
local api_key, tenant_key = unpack(KEYS)
local key_hash, tenant, permission, scope, subscribes = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access
-- @include access/subscription_fence
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, permission, scope, now_ms())
if refusal then return {refusal, why} end
if subscribes ~= '' and not subscription_fence_allows(filter, subscribes:sub(2)) then
  return {'scope_forbidden', filter}
end
return {'granted', filter or ''}
