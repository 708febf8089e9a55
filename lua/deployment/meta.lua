#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/deployment.rs.
Reads how a deployment was started, or starts one. The values of the first caller stay, but for an older layout.

KEYS[1]  write  meta  hash  meta

ARGV[1]  layout      int64   The newest layout of the caller.
ARGV[2]  partitions  int64
ARGV[3]  secret      text    32 random bytes, base64url; empty: only read.
ARGV[4]  dialect     text
ARGV[5]  may_raise   1 or 0  Whether the caller may raise an older layout to its own.

Replies, the first that applies:
  missing | meta layout partitions secret dialect usage_from_ms
Writes:
  All fields at once, if the key does not exist and a secret is given. Where it is older, from when on usage is counted,
  and the layout, if it is raised.
]]
local meta = KEYS[1]
local layout, partitions, secret, dialect, may_raise = unpack(ARGV)
-- End of the signature.
-- @include base/time

local now, absent = now_ms(), redis.call('EXISTS', meta) == 0
if absent and secret == '' then return {'missing'} end

-- Effects: none can fail.
if absent then
  redis.call('HSET', meta, 'layout', layout, 'partitions', partitions, 'secret', secret, 'dialect', dialect, 'usage_from_ms', now)
elseif may_raise == '1' then
  -- The first day that begins after this release did.
  redis.call('HSETNX', meta, 'usage_from_ms', now - now % DAY_MS + DAY_MS)
end
local present = tonumber(redis.call('HGET', meta, 'layout') or '')
if may_raise == '1' and present and present < tonumber(layout) then redis.call('HSET', meta, 'layout', layout) end
local stored = redis.call('HMGET', meta, 'layout', 'partitions', 'secret', 'dialect', 'usage_from_ms')
return {'meta', stored[1], stored[2], stored[3], stored[4], stored[5]}
