#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/policies.rs.
Reads those of a tenant's policies that have changed since a version, as they are now, oldest change first: as many as a
number of bytes allows, but one at least. version: the one that was reached. unknown_version: the changes since are not
kept.

KEYS[1]  read  tenant_key      hash  tenant:<tenant>
KEYS[2]  read  policy_changes  list  policy_changes:<tenant>
built    read                  hash  policy:<policy_id>

ARGV[1]  policy_prefix  prefix policy:
ARGV[2]  version        text
ARGV[3]  bytes          int64

Replies, the first that applies:
  unknown_version | changed version complete records
Writes:
  Nothing.
]]
local tenant_key, policy_changes = unpack(KEYS)
local policy_prefix, version, bytes = unpack(ARGV)
-- End of the signature.
local changes = redis.call('LRANGE', policy_changes, 0, -1)
local at = 0
for i, change in ipairs(changes) do
  if change:match('^%S+') == version then
    at = i
    break
  end
end
-- The list counts only if it ends at the version in force; after a repair by hand it may not.
local is_current = at > 0 and changes[1]:match('^%S+') == redis.call('HGET', tenant_key, 'policies')
if not is_current then return {'unknown_version'} end
local reply, left = {'changed', version, 1}, tonumber(bytes)
for i = at - 1, 1, -1 do
  local changed, policy_id = changes[i]:match('^(%S+) (%S+)$')
  local record = redis.call('HGETALL', policy_prefix .. policy_id)
  for _, text in ipairs(record) do left = left - #text end
  if left < 0 and i < at - 1 then
    reply[3] = 0
    break
  end
  reply[2], reply[#reply + 1] = changed, record
end
return reply
