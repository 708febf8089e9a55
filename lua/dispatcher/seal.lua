#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/audit_chain.rs.
Seals entries of an audit chain that were appended on one day, behind those that are sealed: stores with the number of
each the hash of the entry before it. When all of the chain is sealed, its name leaves the list of those to be sealed.

left: how many entries are not sealed yet. passed: another dispatcher has sealed meanwhile. Without seals only the list
is corrected.

KEYS[1]  read   lease     hash  lease
KEYS[2]  write  chain     hash  chain:<tenant>
KEYS[3]  write  seals     hash  seals:<tenant>:<sealed_day>
KEYS[4]  write  unsealed  set   unsealed

ARGV[1]    tenant           text
ARGV[2]    fencing_token    int64
ARGV[3]    sealed_sequence  int64       The value that was read before.
ARGV[4]    sequence         int64       Of the last entry that is sealed now.
ARGV[5]    hash             text        Of the last entry that is sealed now.
ARGV[6]    entry            text        The id of that entry in its stream.
ARGV[7]    sealed_day       yyyymmdd
ARGV[8..]  new              to the end  Sequence and seal of each.

Replies, the first that applies:
  fenced | passed sealed_sequence | sealed sequence left
Writes:
  On sealed: the seals, the chain, the list.
]]
local lease, chain, seals, unsealed = unpack(KEYS)
local tenant, fencing_token, sealed_sequence, sequence, hash, entry, sealed_day = unpack(ARGV, 1, 7)
local new_from = 8
-- End of the signature.
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local last, sealed = unpack(redis.call('HMGET', chain, 'sequence', 'sealed_sequence'))
if not (sealed or '0'):find('^%d+$') then error(chain .. ': sealed_sequence is no number') end
if tonumber(sealed or '0') ~= tonumber(sealed_sequence) then return {'passed', sealed or '0'} end
redis.call('SCARD', unsealed)
local left = tonumber(last or '0') - tonumber(sequence)
-- The chain was reset: sealing its entries again would hide that.
if redis.call('HEXISTS', seals, ARGV[new_from] or '') == 1 then error(seals .. ': ' .. ARGV[new_from] .. ' is sealed already') end

-- Effects: none can fail.
if #ARGV >= new_from then
  for i = new_from, #ARGV, 200 do redis.call('HSET', seals, unpack(ARGV, i, math.min(i + 199, #ARGV))) end
  redis.call('HSET', seals, 'last', sequence .. ' ' .. hash)
  redis.call('HSET', chain, 'sealed_sequence', sequence, 'sealed_hash', hash, 'sealed_entry', entry, 'sealed_day', sealed_day)
end
if left <= 0 then redis.call('SREM', unsealed, tenant) end
return {'sealed', sequence, left}
