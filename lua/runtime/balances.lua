#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Reads up to a number of a tenant's ledgers in canonical order, from a position on.

The fields of a ledger: status remaining allocated spent reserved debt overdraft_limit is_over_limit; an empty array
where the key holds no hash. Then all names and values of one that must turn, else an empty array.

KEYS[1]  read  api_key  hash  apikey:<key_id>
KEYS[2]  read  budgets  zset  budgets:<tenant>
built    read           hash  budget:<tenant>:<unit>:<scope>

ARGV[1]  budget_prefix  prefix budget:<tenant>:
ARGV[2]  key_hash       text                     Of the API key; empty for the admin key.
ARGV[3]  tenant         text
ARGV[4]  after          text or ''               The last entry that was seen.
ARGV[5]  rows           int64                    How many at most.

Replies, the first that applies:
  unauthorized why | forbidden permission | listed now_ms scope_filter complete entry_fields_record
Writes:
  Nothing.
]]
local api_key, budgets = unpack(KEYS)
local budget_prefix, key_hash, tenant, after, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, base/hash_fields
local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, 'balances:read', now)
if refusal then return {refusal, why} end
local entries = redis.call('ZRANGEBYLEX', budgets, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, rows)
local reply = {'listed', now, why or '', #entries < tonumber(rows) and 1 or 0}
for _, entry in ipairs(entries) do
  local scope, unit = entry:match('^(%S+) %d (%S+)$')
  local key = budget_prefix .. (unit or '') .. ':' .. (scope or '')
  local ledger = hash_fields(key, 'status', 'remaining', 'allocated', 'spent', 'reserved', 'debt', 'overdraft_limit',
    'is_over_limit', 'turns_at_ms')
  local turns_at_ms = not ledger.err and tonumber(table.remove(ledger, 9))
  local is_due = turns_at_ms and turns_at_ms <= now
  reply[#reply + 1], reply[#reply + 2] = entry, ledger.err and {} or ledger
  reply[#reply + 1] = is_due and redis.call('HGETALL', key) or {}
end
return reply
