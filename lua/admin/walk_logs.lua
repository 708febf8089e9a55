#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/logs.rs.
Reads a number of entries of a tenant's logs in their order, from a position on: events, or audit entries for the admin
key alone.

complete: no row is left in any log. A key that holds no stream holds no entries.

KEYS[1]    read  api_key     hash    apikey:<key_id>
KEYS[2]    read  tenant_key  hash    tenant:<tenant>
KEYS[3..]  read  logs        stream  events:<tenant>:<day> | audit:<tenant>:<day>

ARGV[1]  key_hash   text   Of the API key; empty for the admin key.
ARGV[2]  tenant     text
ARGV[3]  scope      text   The scope filter of the request, or ''.
ARGV[4]  direction  text   asc or desc.
ARGV[5]  low        text   Lowest entry, as XRANGE has it.
ARGV[6]  high       text   Highest entry.
ARGV[7]  rows       int64  How many at most.

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | listed scope_filter complete log_entry_facts
Writes:
  Nothing.
]]
local api_key, tenant_key = unpack(KEYS, 1, 2)
local key_hash, tenant, scope, direction, low, high, rows = unpack(ARGV)
local logs_from = 3
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access

local function entries(log, count)
  local found
  if direction == 'asc' then
    found = redis.pcall('XRANGE', log, low, high, 'COUNT', count)
  else
    found = redis.pcall('XREVRANGE', log, high, low, 'COUNT', count)
  end
  if not found.err then return found end
  -- An error since its slot is migrating says nothing about the log.
  if not found.err:find('WRONGTYPE', 1, true) then error(found) end
  return {}
end

local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'events:read', scope, now_ms())
if refusal then return {refusal, why} end
local left, reply = tonumber(rows), {'listed', filter or '', 1}
for i = logs_from, #KEYS do
  if left == 0 then
    reply[3] = 0
    break
  end
  for _, entry in ipairs(entries(KEYS[i], left)) do
    left = left - 1
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = i - logs_from + 1, entry[1], entry[2]
  end
end
if left == 0 then reply[3] = 0 end
return reply
