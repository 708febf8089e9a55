#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/budget_lists.rs.
Reads a number of a tenant's ledgers in the order of scopes and units, or against it, from a position on.

The fields of a ledger are an empty array where the key holds no hash.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  budgets     zset  budgets:<tenant>
built    read              hash  budget:<tenant>:<unit>:<scope>

ARGV[1]    key_hash       text                     Of the API key; empty for the admin key.
ARGV[2]    tenant         text
ARGV[3]    budget_prefix  prefix budget:<tenant>:
ARGV[4]    scope_prefix   text                     Prefix of the scopes.
ARGV[5]    after          text or ''               An entry of budgets.
ARGV[6]    direction      text                     asc or desc.
ARGV[7]    rows           int64                    How many at most.
ARGV[8]    bound          int64 or ''              The most ledgers that may be gathered.
ARGV[9..]  names          to the end

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | too_many |
  listed scope_filter complete entry_fields
Writes:
  Nothing.
]]
local api_key, tenant_key, budgets = unpack(KEYS)
local key_hash, tenant, budget_prefix, scope_prefix, after, direction, rows, bound = unpack(ARGV, 1, 8)
local names_from = 9
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'budgets:read', scope_prefix:lower(), now_ms())
if refusal then return {refusal, why} end
local low, high = '-', '+'
if scope_prefix ~= '' then low, high = '[' .. scope_prefix, '(' .. scope_prefix .. '\255' end
if bound ~= '' and redis.call('ZLEXCOUNT', budgets, low, high) > tonumber(bound) then return {'too_many'} end
local entries
if direction == 'asc' then
  if after ~= '' then low = '(' .. after end
  entries = redis.call('ZRANGEBYLEX', budgets, low, high, 'LIMIT', 0, rows)
else
  if after ~= '' then high = '(' .. after end
  entries = redis.call('ZREVRANGEBYLEX', budgets, high, low, 'LIMIT', 0, rows)
end
local reply = {'listed', filter or '', #entries < tonumber(rows) and 1 or 0}
for _, entry in ipairs(entries) do
  local scope, unit = entry:match('^(%S+) %d (%S+)$')
  local ledger = hash_fields(budget_prefix .. (unit or '') .. ':' .. (scope or ''), unpack(ARGV, names_from))
  reply[#reply + 1], reply[#reply + 2] = entry, ledger.err and {} or ledger
end
return reply
