#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_keys.rs.
Enters an API key into the directory before it is recorded, and chooses its creation time, so that the directory is in
the order of these times, whatever the clocks of other nodes say.

KEYS[1]  write  api_key_directory  zset  {dir}:apikeys

ARGV[1]  key_id  text

Replies, the first that applies:
  registered now_ms
Writes:
  On registered: the directory. An id that is there keeps its place.
]]
local api_key_directory = KEYS[1]
local key_id = ARGV[1]
-- End of the signature.
-- @include base/time
local now = now_ms()

-- Effects: none can fail. An id that is taken keeps its place.
redis.call('ZADD', api_key_directory, 'NX', now, key_id)
return {'registered', now}
