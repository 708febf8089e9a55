#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/evidence/unsigned.rs.
Reads entries of evidence that is to be signed, behind a place, each with the fields of the reservation that it names:
of as many as a number of rows and of bytes allows. The fields are an empty array where there is no reservation.

next: the first entry behind those; '' if there is none.

KEYS[1]  read  unsigned  stream  unsigned
built    read            hash    rsv:<reservation_id>

ARGV[1]    reservation_prefix  prefix rsv:
ARGV[2]    after               text         An entry.
ARGV[3]    rows                int64        How many at most.
ARGV[4]    bytes               int64
ARGV[5]    at_least_one        1 or 0       Whether the first entry is read whatever its bytes are.
ARGV[6..]  names               to the end

Replies, the first that applies:
  entries next entry_facts_fields
Writes:
  Nothing.
]]
local unsigned = KEYS[1]
local reservation_prefix, after, rows, bytes, at_least_one = unpack(ARGV, 1, 5)
local names_from = 6
-- End of the signature.
-- @include base/hash_fields
local rows_max, left, reply = tonumber(rows), tonumber(bytes), {'entries', ''}

-- The fields of the reservation that an entry names.
local function fields_of(facts)
  local named = {}
  for i = 1, #facts, 2 do named[facts[i]] = facts[i + 1] end
  if not named.id or (named.kind ~= 'create' and named.kind ~= 'end') then return {} end
  local fields = hash_fields(reservation_prefix .. named.id, unpack(ARGV, names_from))
  return fields.err and {} or fields
end

-- A few at first, so that little is read in vain if they are large.
local count, step = 0, 1
while count < rows_max do
  local wanted = math.min(step, rows_max - count)
  local found = redis.call('XRANGE', unsigned, '(' .. after, '+', 'COUNT', wanted)
  for _, row in ipairs(found) do
    local facts, fields = row[2], fields_of(row[2])
    for _, values in ipairs({facts, fields}) do
      for _, value in ipairs(values) do left = left - #(value or '') end
    end
    if left < 0 and not (at_least_one == '1' and count == 0) then
      reply[2] = row[1]
      return reply
    end
    count, after = count + 1, row[1]
    for _, value in ipairs({row[1], facts, fields}) do reply[#reply + 1] = value end
  end
  if #found < wanted then return reply end
  step = math.min(2 * step, 64)
end
local following = redis.call('XRANGE', unsigned, '(' .. after, '+', 'COUNT', 1)[1]
reply[2] = following and following[1] or ''
return reply
