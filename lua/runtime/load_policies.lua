#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/policies.rs.
Reads a number of a tenant's policies and their version, for a replica to choose among them: as many as a number of
bytes allows, but one at least. last: the last id that was looked at.

KEYS[1]  read  tenant_key  hash  tenant:<tenant>
KEYS[2]  read  policies    zset  policies:<tenant>
built    read              hash  policy:<policy_id>

ARGV[1]  policy_prefix  prefix policy:
ARGV[2]  after          text            An id, or ''.
ARGV[3]  rows           int64           How many at most.
ARGV[4]  bytes          int64

Replies, the first that applies:
  loaded version last complete records
Writes:
  Nothing.
]]
local tenant_key, policies = unpack(KEYS)
local policy_prefix, after, rows, bytes = unpack(ARGV)
-- End of the signature.
-- @include ledger/policies_read
return policies_read({'loaded', redis.call('HGET', tenant_key, 'policies') or ''}, policies, policy_prefix, after, rows, bytes)
