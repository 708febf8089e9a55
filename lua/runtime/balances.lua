#!lua flags=no-writes,allow-oom
--[[
balances: up to a number of a tenant's ledgers in canonical order, from a position on.
KEYS[1] api_key hash    KEYS[2] budgets zset of `scope unit_index UNIT`    Keys built: the budgets that it names, read only.
ARGV[1] key_hash       ARGV[3] budget_prefix                       ARGV[5] rows at most
ARGV[2] tenant         ARGV[4] after: the last entry seen, or ''   ARGV[6] permission
Reply: unauthorized why | forbidden permission
  | listed now_ms scope_filter complete(1|0), then for each ledger: entry, and an array of status remaining allocated
    spent reserved debt overdraft_limit is_over_limit, each false where it is missing; an empty one where the key holds no hash
]]
-- @include base/time, access/access, base/hash_fields
local key_hash, tenant, prefix, after, rows, permission = unpack(ARGV)
local now = now_ms()
local refusal, why = access_refusal(KEYS[1], key_hash, tenant, permission, now)
if refusal then return {refusal, why} end
local entries = redis.call('ZRANGEBYLEX', KEYS[2], after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, rows)
local reply = {'listed', now, why or '', #entries < tonumber(rows) and 1 or 0}
for _, entry in ipairs(entries) do
  local scope, unit = entry:match('^(%S+) %d (%S+)$')
  local key = prefix .. (unit or '') .. ':' .. (scope or '')
  local ledger = hash_fields(key, 'status', 'remaining', 'allocated', 'spent', 'reserved', 'debt', 'overdraft_limit',
    'is_over_limit')
  reply[#reply + 1], reply[#reply + 2] = entry, ledger.err and {} or ledger
end
return reply
