#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/console.rs.
Opens a session of the console for the holder of a key. Where they have too many, those that end first are ended.

KEYS[1]  write  sessions  hash  {dir}:console:<holder>

ARGV[1]  cookie    text   Digest of the cookie.
ARGV[2]  key_hash  text   Digest of the key.
ARGV[3]  life_ms   int64
ARGV[4]  most      int64  How many sessions one holder has at most.

Replies, the first that applies:
  opened
Writes:
  The session, and how long all of them live; ended ones are removed.
]]
local sessions = KEYS[1]
local cookie, key_hash, life_ms, most = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/int64
local now, held = now_ms(), {}
local stored = redis.call('HGETALL', sessions)
for i = 1, #stored, 2 do
  held[#held + 1] = {cookie = stored[i], ends_at_ms = tonumber(stored[i + 1]:match('^%d+')) or 0}
end
table.sort(held, function(a, b) return a.ends_at_ms > b.ends_at_ms end)

-- Effects: none can fail. With the new one, as many as there may be.
for i, session in ipairs(held) do
  if i >= tonumber(most) or session.ends_at_ms <= now then redis.call('HDEL', sessions, session.cookie) end
end
redis.call('HSET', sessions, cookie, int64_text(now + life_ms) .. ' ' .. key_hash)
redis.call('PEXPIRE', sessions, life_ms)
return {'opened'}
