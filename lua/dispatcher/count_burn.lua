#!lua
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/traffic.rs.
Counts what a replica saw charged of late to some ledgers of a tenant, as far as they are watched.

KEYS[1]    read   tenant_key  hash  tenant:<tenant>
KEYS[2]    write  burning     zset  burning
KEYS[3..]  write  burn        hash  burn:<tenant>:<unit>:<scope>

ARGV[1]    tenant   text
ARGV[2..]  charges  to the end  For each of the keys: unit and scope, and what was charged.

Replies, the first that applies:
  counted
Writes:
  The counts of the ledgers that are watched, their time in the index.
]]
local tenant_key, burning = unpack(KEYS, 1, 2)
local tenant = ARGV[1]
local burn_from = 3
local charges_from = 2
-- End of the signature.
-- @include base/time, base/hash_fields, detect/burn
local now = now_ms()
local watched = hash_fields(tenant_key, 'watched_rates')[1]
local counted = {}
for i = burn_from, #KEYS do
  local at = charges_from + 2 * (i - burn_from)
  local ledger, amount = ARGV[at], tonumber(ARGV[at + 1])
  local _, windows = burn_limits(watched, ledger:match(' (.*)$'))
  local fields, longest, due_ms = {}, 0, nil
  for _, window in ipairs(windows) do
    local bucket, next_ms = burn_bucket(window, now)
    local field, number = burn_row(window, bucket)
    local row, amounts = burn_amounts(redis.call('HGET', KEYS[i], field) or '')
    if row ~= number then amounts = {} end
    for place = 1, BURN_BUCKETS do amounts[place] = amounts[place] or 0 end
    local place = bucket % BURN_BUCKETS + 1
    amounts[place] = amounts[place] + amount
    for one = 1, BURN_BUCKETS do amounts[one] = ('%.0f'):format(amounts[one]) end
    fields[#fields + 1], fields[#fields + 2] = field, ('%.0f '):format(number) .. table.concat(amounts, ' ')
    longest, due_ms = math.max(longest, window), math.min(due_ms or next_ms, next_ms)
  end
  if due_ms then counted[#counted + 1] = {KEYS[i], fields, longest, due_ms, tenant .. ' ' .. ledger} end
end
redis.call('ZCARD', burning)

-- Effects: none can fail.
for _, one in ipairs(counted) do
  redis.call('HSET', one[1], unpack(one[2]))
  redis.call('PEXPIRE', one[1], one[3] * 14000)
  redis.call('ZADD', burning, 'LT', one[4], one[5])
end
return {'counted'}
