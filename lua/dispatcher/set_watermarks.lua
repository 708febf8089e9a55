#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/views.rs.
Records how far some partitions are in a view over all tenants. Higher marks stay.

A partition is under one time only. Dispatchers report one time for all partitions that they have followed to the end,
so there are few of them, and a report is short however many partitions it is about. all: 0 while a partition has no
time.

KEYS[1]  write  watermarks  hash  {all}:watermarks:<view>

ARGV[1..]  reached  to the end
    Times in ms, and for each its partitions: a bit each, in 256 hexadecimal digits, the first partition first.

Replies, the first that applies:
  noted all
Writes:
  On noted: the watermarks.
]]
local watermarks = KEYS[1]
local reached_from = 1
-- End of the signature.
local WORDS = 32

local function words_of(digits)
  local words = {}
  for i = 1, WORDS do words[i] = bit.tobit(tonumber(digits:sub(8 * i - 7, 8 * i), 16)) end
  return words
end

local function change(set, operation, other)
  for i = 1, WORDS do set[i] = operation(set[i], other[i]) end
end

local function without(a, b) return bit.band(a, bit.bnot(b)) end

local function digits_of(set)
  local digits, empty = {}, true
  for i = 1, WORDS do
    digits[i] = bit.tohex(set[i])
    empty = empty and set[i] == 0
  end
  return not empty and table.concat(digits) or nil
end

local noted, was = {}, {}
local fields = redis.call('HGETALL', watermarks)
for i = 1, #fields, 2 do
  if fields[i] ~= 'all' then noted[fields[i]], was[fields[i]] = words_of(fields[i + 1]), fields[i + 1] end
end
for i = reached_from, #ARGV, 2 do
  local ms, set = ARGV[i], words_of(ARGV[i + 1])
  for other, partitions in pairs(noted) do
    if tonumber(other) > tonumber(ms) then change(set, without, partitions) end
  end
  for other, partitions in pairs(noted) do
    if tonumber(other) < tonumber(ms) then change(partitions, without, set) end
  end
  if noted[ms] then change(set, bit.bor, noted[ms]) end
  noted[ms] = set
end
local all, known, write, gone = nil, words_of(('0'):rep(8 * WORDS)), {}, {}
for ms, partitions in pairs(noted) do
  local digits = digits_of(partitions)
  if digits and (not all or tonumber(ms) < tonumber(all)) then all = ms end
  if not digits then gone[#gone + 1] = ms
  elseif digits ~= was[ms] then write[#write + 1], write[#write + 2] = ms, digits end
  change(known, bit.bor, partitions)
end
if digits_of(known) ~= ('f'):rep(8 * WORDS) then all = '0' end

-- Effects: none can fail.
redis.call('HSET', watermarks, 'all', all, unpack(write))
if #gone > 0 then redis.call('HDEL', watermarks, unpack(gone)) end
return {'noted', all}
