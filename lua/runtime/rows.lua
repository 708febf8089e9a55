#!lua flags=no-writes,allow-oom
--[[
rows: reservations of one partition, as many as a number of bytes allows.
KEYS reservations hash
ARGV[1] bytes: those of a further row that would pass it are not told    ARGV[2..] fields
Reply: rows now_ms, then for each key, in order, an array of the fields, each false where it is missing; an empty one where
the key holds no hash. At least one row, if there is a key.
]]
-- @include base/time, base/hash_fields
local left = tonumber(ARGV[1])
local reply = {'rows', now_ms()}
for i, key in ipairs(KEYS) do
  local fields = hash_fields(key, unpack(ARGV, 2))
  if fields.err then fields = {} end
  for _, value in ipairs(fields) do left = left - #(value or '') end
  if left < 0 and i > 1 then break end
  reply[2 + i] = fields
end
return reply
