--[[
hash_fields: reads fields of a key that may hold another type, which is a finding about the record, not an error.
]]

-- Returns the fields, or a table with `err` when the key holds no hash. Raises any other error: that the slot of the key is
-- moving to another node says nothing about the record.
local function hash_fields(key, ...)
  local fields = redis.pcall('HMGET', key, ...)
  if fields.err and not fields.err:find('WRONGTYPE', 1, true) then error(fields) end
  return fields
end
