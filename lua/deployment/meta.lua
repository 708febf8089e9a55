#!lua flags=allow-oom
--[[
meta: starts a deployment, or tells how it was started. The first caller's values stay.
KEYS[1] <prefix>:meta  hash    layout, partitions, secret, dialect
ARGV[1] layout      int    newest layout of the caller, written by a first start
ARGV[2] partitions  int
ARGV[3] secret      32 random bytes, base64url
ARGV[4] dialect     word
Reply: {'meta', layout, partitions, secret, dialect}, each false where the field is missing
Writes: all four fields at once, if the key does not exist
]]
local meta = KEYS[1]
local layout, partitions, secret, dialect = unpack(ARGV)

-- Effects: none can fail.
if redis.call('EXISTS', meta) == 0 then
  redis.call('HSET', meta, 'layout', layout, 'partitions', partitions, 'secret', secret, 'dialect', dialect)
end
local stored = redis.call('HMGET', meta, 'layout', 'partitions', 'secret', 'dialect')
return {'meta', stored[1], stored[2], stored[3], stored[4]}
