#!lua flags=no-writes,allow-oom
--[[
list_budgets: a number of a tenant's ledgers in the order of scopes and units, or against it, from a position on.
KEYS[1] api_key hash    KEYS[2] tenant hash    KEYS[3] budgets zset, lexical
Keys built: the ledgers that it names, read only.
ARGV[1] key_hash, '' for the admin key    ARGV[5] after: an entry of budgets, or ''
ARGV[2] tenant                            ARGV[6] direction asc | desc
ARGV[3] budget_prefix                     ARGV[7] rows at most
ARGV[4] scope_prefix or ''                ARGV[8] bound: what is to be gathered has no more ledgers, or ''
ARGV[9..] fields
Reply: unauthorized why | forbidden permission | scope_forbidden | too_many
  | listed scope_filter complete(1|0), then for each ledger: entry, and an array of the fields, each false where it is
    missing; an empty one where the key holds no hash
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields
local key_hash, tenant, budget_prefix, scope_prefix, after, direction, rows, bound = unpack(ARGV, 1, 8)
local refusal, why, filter =
  admin_access_refusal(KEYS[1], KEYS[2], key_hash, tenant, 'budgets:read', scope_prefix:lower(), now_ms())
if refusal then return {refusal, why} end
local low, high = '-', '+'
if scope_prefix ~= '' then low, high = '[' .. scope_prefix, '(' .. scope_prefix .. '\255' end
if bound ~= '' and redis.call('ZLEXCOUNT', KEYS[3], low, high) > tonumber(bound) then return {'too_many'} end
local entries
if direction == 'asc' then
  if after ~= '' then low = '(' .. after end
  entries = redis.call('ZRANGEBYLEX', KEYS[3], low, high, 'LIMIT', 0, rows)
else
  if after ~= '' then high = '(' .. after end
  entries = redis.call('ZREVRANGEBYLEX', KEYS[3], high, low, 'LIMIT', 0, rows)
end
local reply = {'listed', filter or '', #entries < tonumber(rows) and 1 or 0}
for _, entry in ipairs(entries) do
  local scope, unit = entry:match('^(%S+) %d (%S+)$')
  local ledger = hash_fields(budget_prefix .. (unit or '') .. ':' .. (scope or ''), unpack(ARGV, 9))
  reply[#reply + 1], reply[#reply + 2] = entry, ledger.err and {} or ledger
end
return reply
