#!lua flags=allow-oom
--[[
bulk_claim: who does a bulk action. The claim holds what is to be done, frozen: the rows, the cause, the digest of the
request. Whoever has the lease does the rows; when the lease is over, anybody may take it and go on.
KEYS[1] bulk  hash    KEYS[2] bulks  zset
ARGV[1] mode look | begin | resume | renew    ARGV[3] payload_hash, '' for whoever goes on with any
ARGV[2] member of bulks                       ARGV[4] lease_ms
ARGV[5..] names and values of a new claim
Reply, first that holds: idempotency_mismatch | replayed response in_progress | busy | none | renewed
  | claimed now_ms record…
look: takes the lease of a claim that nobody has. begin: makes the claim where there is none. resume: like look, for a
worker. renew: for whoever has the lease.
Writes on claimed, renewed: the lease; a new claim. On none in a worker's case: the entry of the index goes.
]]
-- @include base/time
local bulk, bulks = unpack(KEYS)
local mode, member, payload_hash, lease_ms = unpack(ARGV, 1, 4)
local now = now_ms()
local hash, until_ms, response, in_progress =
  unpack(redis.call('HMGET', bulk, 'payload_hash', 'until_ms', 'response', 'in_progress'))
if hash and payload_hash ~= '' and hash ~= payload_hash then return {'idempotency_mismatch'} end
if response then return {'replayed', response, in_progress} end
if hash and mode ~= 'renew' and now < tonumber(until_ms) then return {'busy'} end
redis.call('ZCARD', bulks)

-- Effects: none can fail.
if not hash and mode ~= 'begin' then
  if mode == 'resume' then redis.call('ZREM', bulks, member) end
  return {'none'}
end
if not hash then redis.call('HSET', bulk, 'payload_hash', payload_hash, 'begun_ms', now, unpack(ARGV, 5)) end
redis.call('HSET', bulk, 'until_ms', now + lease_ms)
redis.call('ZADD', bulks, now + lease_ms, member)
if mode == 'renew' then return {'renewed'} end
return {'claimed', now, unpack(redis.call('HGETALL', bulk))}
