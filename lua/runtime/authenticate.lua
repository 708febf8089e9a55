#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Checks an API key, for a request that failed before its own script.

KEYS[1]  read  api_key  hash  apikey:<key_id>

ARGV[1]  key_hash    text  Of the API key; empty for the admin key.
ARGV[2]  tenant      text
ARGV[3]  permission  text  '' for none.

Replies, the first that applies:
  unauthorized why | forbidden permission | authenticated scope_filter
Writes:
  Nothing.
]]
local api_key = KEYS[1]
local key_hash, tenant, permission = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access
local refusal, why = access_refusal(api_key, key_hash, tenant, permission, now_ms())
if refusal then return {refusal, why} end
return {'authenticated', why or ''}
