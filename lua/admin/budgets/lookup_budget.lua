#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/budgets.rs.
Reads one ledger.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  budget      hash  budget:<tenant>:<unit>:<scope>

ARGV[1]  key_hash  text    Of the API key; empty for the admin key.
ARGV[2]  tenant    text
ARGV[3]  scope     text
ARGV[4]  foreign   1 or 0  Whether the scope is another tenant's.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | foreign_budget | budget_not_found | found record
Writes:
  Nothing.
]]
local api_key, tenant_key, budget = unpack(KEYS)
local key_hash, tenant, scope, foreign = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access
local refusal, why = admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:read', scope, now_ms())
if refusal then return {refusal, why} end
if foreign == '1' then return {'foreign_budget'} end
local record = redis.call('HGETALL', budget)
if #record == 0 then return {'budget_not_found'} end
return {'found', unpack(record)}
