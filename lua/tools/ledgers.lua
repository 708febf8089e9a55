#!lua flags=no-writes,allow-oom
--[[
ledgers: ledgers of one partition at one moment of the store's clock.
KEYS[1] over_limit_or_in_debt  zset    KEYS[2..] budgets  hash
ARGV[1..] how the index of the over_limit_or_in_debt names each of them: `<tenant> <UNIT> <scope>`
Reply: ledgers now_ms, then for each ledger an array: status allocated spent reserved debt remaining base_spent base_debt
is_over_limit, and its scores among the over_limit_or_in_debt for its debt and for being over its limit, each false where it is missing;
an empty array where the key holds no hash.
]]
-- @include base/time, base/hash_fields
local reply = {'ledgers', now_ms()}
for i = 2, #KEYS do
  local fields = hash_fields(KEYS[i], 'status', 'allocated', 'spent', 'reserved', 'debt', 'remaining', 'base_spent',
    'base_debt', 'is_over_limit')
  if not fields.err then
    fields[10] = redis.call('ZSCORE', KEYS[1], 'debt ' .. ARGV[i - 1])
    fields[11] = redis.call('ZSCORE', KEYS[1], 'over ' .. ARGV[i - 1])
  end
  reply[1 + i] = fields.err and {} or fields
end
return reply
