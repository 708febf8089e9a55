#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/retention.rs.
Moves up to a number of combinations of a day's usage into the month, and counts the step there, so that a reader
notices it. The hashes beside that of the day go before it.

KEYS[1]  read   lease           hash  lease
KEYS[2]  write  usage           hash  usage:<tenant>:<of_day>
KEYS[3]  write  usage_of_month  hash  usage_month:<tenant>:<month>
built    write                  hash  usage:<tenant>:<day>:<number>
built    write                  hash  usage_month:<tenant>:<month>:<number>

ARGV[1]  fencing_token  int64
ARGV[2]  number         int64 or ''  The number of a hash beside that of the day; empty for that of the day.
ARGV[3]  merged_until   text         The day, as keys have it.
ARGV[4]  combinations   int64
ARGV[5]  hashes         int64        How many hashes there may be beside one.
ARGV[6]  expires_ms     int64        When the month goes.

Replies, the first that applies:
  fenced | merged left
Writes:
  The combinations go from the day to the month.
]]
local lease, usage, usage_of_month = unpack(KEYS)
local fencing_token, number, merged_until, combinations, hashes, expires_ms = unpack(ARGV)
-- End of the signature.
-- @include base/slot, ledger/usage, ledger/usage_place, ledger/usage_sum
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end

-- Reads: each hash that may be written, so that one of another type raises here.
local from = number == '' and usage or usage .. ':' .. number
local found = redis.call('HRANDFIELD', from, combinations, 'WITHVALUES')
slot_check(usage_of_month)
redis.call('HLEN', usage_of_month)
for i = 0, hashes - 1 do redis.call('HLEN', usage_of_month .. ':' .. i) end

-- Effects. A combination is placed after the ones before it were written, because these count.
for i = 1, #found, 2 do
  local charged, count, refunded, mark = found[i + 1]:match('^(%d+) (%d+) ?(%d*)( ?%+?)$')
  if found[i] ~= 'combinations' and count then
    local is_readable = int64(charged)
    local count_usage, key = usage_count(usage_of_month, found[i], is_readable or INT64_MAX, tonumber(count), int64(refunded) or 0,
      mark ~= '' or not is_readable)
    count_usage()
    redis.call('PEXPIREAT', key, expires_ms)
  end
  redis.call('HDEL', from, found[i])
end
if #found > 0 then
  local before = redis.call('HGET', usage_of_month, 'until')
  if not before or before < merged_until then redis.call('HSET', usage_of_month, 'until', merged_until) end
  redis.call('HINCRBY', usage_of_month, 'merges', 1)
  redis.call('PEXPIREAT', usage_of_month, expires_ms)
end
return {'merged', redis.call('HLEN', from)}
