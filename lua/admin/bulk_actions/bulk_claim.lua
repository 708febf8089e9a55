#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk.rs.
Decides who does a bulk action. The claim holds what is to be done, frozen: the rows, the request cause, the payload
hash. The holder of its lease does the rows; when the lease is over, any process may take it and resume.

look: takes the lease of a claim that nobody has. begin: makes the claim where there is none. resume: like look, for a
worker. renew: for the holder of the lease.

KEYS[1]  write  bulk   hash  bulk:<tenant>:<digest>
KEYS[2]  write  bulks  zset  bulks

ARGV[1]    mode          text        look, begin, resume or renew.
ARGV[2]    member        text        The entry in the index `bulks`.
ARGV[3]    payload_hash  text        '' for a worker.
ARGV[4]    lease_ms      int64
ARGV[5..]  fields        to the end  Names and values of a new claim.

Replies, the first that applies:
  idempotency_mismatch | replayed response in_progress | busy | none | renewed | claimed now_ms record
Writes:
  On claimed and renewed: the lease; a new claim. On none, for a worker: the entry of the index goes.
]]
local bulk, bulks = unpack(KEYS)
local mode, member, payload_hash, lease_ms = unpack(ARGV, 1, 4)
local fields_from = 5
-- End of the signature.
-- @include base/time
local now = now_ms()
local hash, until_ms, response, in_progress, its_lease_ms =
  unpack(redis.call('HMGET', bulk, 'payload_hash', 'until_ms', 'response', 'in_progress', 'lease_ms'))
if hash and payload_hash ~= '' and hash ~= payload_hash then return {'idempotency_mismatch'} end
if response then return {'replayed', response, in_progress} end
-- A lease further ahead than its own duration dates from before the clock was set back.
local ahead = its_lease_ms and until_ms - its_lease_ms > now
if hash and mode ~= 'renew' and now < tonumber(until_ms) and not ahead then return {'busy'} end
redis.call('ZCARD', bulks)

-- Effects: none can fail.
if not hash and mode ~= 'begin' then
  if mode == 'resume' then redis.call('ZREM', bulks, member) end
  return {'none'}
end
if not hash then redis.call('HSET', bulk, 'payload_hash', payload_hash, 'begun_ms', now, unpack(ARGV, fields_from)) end
redis.call('HSET', bulk, 'until_ms', now + lease_ms, 'lease_ms', lease_ms)
redis.call('ZADD', bulks, now + lease_ms, member)
if mode == 'renew' then return {'renewed'} end
return {'claimed', now, unpack(redis.call('HGETALL', bulk))}
