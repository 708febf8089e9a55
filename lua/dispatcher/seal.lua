#!lua flags=allow-oom
--[[
seal: seals entries of an audit chain that were appended on one day, behind those that are sealed: stores with the number
of each the hash of the entry before it. When all of the chain is sealed, its name leaves the list of those to be sealed.
KEYS[1] chain  hash    KEYS[2] seals  hash  of the day    KEYS[3] unsealed  set    KEYS[4] lease  hash
ARGV[1] tenant           ARGV[3] sealed_sequence as it was read       ARGV[5] hash of the last entry that is sealed now
ARGV[2] fencing_token    ARGV[4] sequence of the last entry that is   ARGV[6] its id in its stream
                                 sealed now                           ARGV[7] day yyyymmdd
ARGV[8..] sequences and seals, in turn
Reply: fenced | passed sealed_sequence | sealed sealed_sequence left; left: how many entries are not sealed yet
passed: somebody else has sealed meanwhile. Without seals nothing but the list is looked at.
]]
local chain, seals, unsealed, lease = unpack(KEYS)
local tenant, token, read, sequence, hash, entry, day = unpack(ARGV, 1, 7)
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local last, sealed = unpack(redis.call('HMGET', chain, 'sequence', 'sealed_sequence'))
if not (sealed or '0'):find('^%d+$') then error(chain .. ': sealed_sequence is no number') end
if tonumber(sealed or '0') ~= tonumber(read) then return {'passed', sealed or '0'} end
redis.call('SCARD', unsealed)
local left = tonumber(last or '0') - tonumber(sequence)
-- The chain was turned back: to seal anew what is sealed would cover up for it.
if redis.call('HEXISTS', seals, ARGV[8] or '') == 1 then error(seals .. ': ' .. ARGV[8] .. ' is sealed already') end

-- Effects: none can fail.
if #ARGV > 7 then
  for i = 8, #ARGV, 200 do redis.call('HSET', seals, unpack(ARGV, i, math.min(i + 199, #ARGV))) end
  redis.call('HSET', seals, 'last', sequence .. ' ' .. hash)
  redis.call('HSET', chain, 'sealed_sequence', sequence, 'sealed_hash', hash, 'sealed_entry', entry, 'sealed_day', day)
end
if left <= 0 then redis.call('SREM', unsealed, tenant) end
return {'sealed', sequence, left}
