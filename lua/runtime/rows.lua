#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Reads fields of reservations of one partition: of as many as a number of bytes allows, but of one at least. The fields
of a row are an empty array where the key holds no hash.

KEYS[1..]  read  reservations  hash  rsv:<reservation_id>

ARGV[1]    bytes  int64
ARGV[2..]  names  to the end

Replies, the first that applies:
  rows now_ms fields
Writes:
  Nothing.
]]
local bytes = ARGV[1]
local names_from = 2
-- End of the signature.
-- @include base/time, base/hash_fields
local left = tonumber(bytes)
local reply = {'rows', now_ms()}
for i, key in ipairs(KEYS) do
  local fields = hash_fields(key, unpack(ARGV, names_from))
  if fields.err then fields = {} end
  for _, value in ipairs(fields) do left = left - #(value or '') end
  if left < 0 and i > 1 then break end
  reply[2 + i] = fields
end
return reply
