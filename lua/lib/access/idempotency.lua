--[[
idempotency: keeps the outcome of an admin request for a day, under the digest of its idempotency key. It keeps the
reply itself, so that a replay has the same words. Only a success is kept.
]]
-- @include log/short_lived

local IDEMPOTENCY_MS = 86400000

-- Returns the reply that ends the script, or nil where the key is new. key is nil for a request without one.
local function idempotency_reply(key, payload_hash)
  if not key then return nil end
  local stored = redis.call('HMGET', key, 'payload_hash', 'count')
  if not stored[1] then return nil end
  if stored[1] ~= payload_hash then return {'idempotency_mismatch'} end
  local reply = {'replayed'}
  for i = 1, tonumber(stored[2]) do reply[i + 1] = redis.call('HGET', key, i) end
  return reply
end

-- Keeps a reply. short_lived: where its bytes are counted. Where a retry would move money again, due is the index of what
-- retention deletes: a TTL would end with a jump of the clock.
local function idempotency_keep(key, payload_hash, reply, now, short_lived, due)
  if not key then return end
  local fields = {'payload_hash', payload_hash, 'count', #reply}
  for i, word in ipairs(reply) do fields[#fields + 1], fields[#fields + 2] = i, word end
  redis.call('HSET', key, unpack(fields))
  if due then
    redis.call('ZADD', due, now + IDEMPOTENCY_MS, key)
  else
    redis.call('PEXPIRE', key, IDEMPOTENCY_MS)
  end
  short_lived_count(short_lived, key, now)
end
