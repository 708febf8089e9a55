#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/events.rs.
Reads one event by what its id says.

KEYS[1]  read  tenant_ids  hash    tenantids
built    read              stream  events:<tenant>:<day>

ARGV[1]    events_prefix  prefix events:
ARGV[2]    digest         text
ARGV[3]    entry          text
ARGV[4]    tenant         text            '' for the one of that digest.
ARGV[5..]  days           to the end      Days, the likeliest first.

Replies, the first that applies:
  not_found | found tenant facts
Writes:
  Nothing.
]]
local tenant_ids = KEYS[1]
local events_prefix, digest, entry, tenant = unpack(ARGV, 1, 4)
local days_from = 5
-- End of the signature.
if tenant == '' then tenant = redis.call('HGET', tenant_ids, digest) end
if not tenant then return {'not_found'} end
for i = days_from, #ARGV do
  local found = redis.call('XRANGE', events_prefix .. tenant .. ':' .. ARGV[i], entry, entry)
  if #found > 0 then return {'found', tenant, unpack(found[1][2])} end
end
return {'not_found'}
