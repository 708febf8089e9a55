#!lua flags=no-writes,allow-oom
--[[
ledgers: ledgers of one partition at one moment of the store's clock.
KEYS budgets hash
Reply: ledgers now_ms, then for each key an array: status allocated spent reserved debt remaining base_spent base_debt,
each false where it is missing; an empty array where the key holds no hash.
]]
-- @include time, hash_fields
local reply = {'ledgers', now_ms()}
for i, key in ipairs(KEYS) do
  local fields = hash_fields(key, 'status', 'allocated', 'spent', 'reserved', 'debt', 'remaining', 'base_spent', 'base_debt')
  reply[2 + i] = fields.err and {} or fields
end
return reply
