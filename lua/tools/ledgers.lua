#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/tools/verify.rs.
Reads ledgers of one partition at one moment of the store's clock.

The fields of a ledger: status allocated spent reserved debt remaining base_spent base_debt is_over_limit over_limit_by
turns_at_ms terms limits observes epoch, and its scores in the index of those over their limit or in debt, for its debt
and for being over its limit, and in that of those that turn. An empty array where the key holds no hash.

KEYS[1]    read  over_limit_or_in_debt  zset  over_limit_or_in_debt
KEYS[2]    read  turns                  zset  turns
KEYS[3..]  read  budgets                hash  budget:<tenant>:<unit>:<scope>

ARGV[1..]  names  to the end  How the index names each ledger: tenant, unit and scope.

Replies, the first that applies:
  ledgers now_ms fields
Writes:
  Nothing.
]]
local over_limit_or_in_debt, turns = unpack(KEYS, 1, 2)
local budgets_from = 3
local names_from = 1
-- End of the signature.
-- @include base/time, base/hash_fields
local reply = {'ledgers', now_ms()}
for i = budgets_from, #KEYS do
  local fields = hash_fields(KEYS[i], 'status', 'allocated', 'spent', 'reserved', 'debt', 'remaining', 'base_spent',
    'base_debt', 'is_over_limit', 'over_limit_by', 'turns_at_ms', 'terms', 'limits', 'observes', 'epoch')
  if not fields.err then
    local name = ARGV[names_from + i - budgets_from]
    fields[16] = redis.call('ZSCORE', over_limit_or_in_debt, 'debt ' .. name)
    fields[17] = redis.call('ZSCORE', over_limit_or_in_debt, 'over ' .. name)
    fields[18] = redis.call('ZSCORE', turns, name)
  end
  reply[3 + i - budgets_from] = fields.err and {} or fields
end
return reply
