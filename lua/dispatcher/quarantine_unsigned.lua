#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/evidence/unsigned.rs.
Moves an entry of evidence that nobody can sign into quarantine. Entries come there in no order, so each also has the
time of the oldest one up to it.

KEYS[1]  write  unsigned    stream  unsigned
KEYS[2]  write  unsignable  stream  unsignable

ARGV[1]  entry  text
ARGV[2]  why    text
ARGV[3]  kept   int64  The oldest beyond go.

Replies, the first that applies:
  gone | quarantined
Writes:
  On quarantined: the entry, from one stream to the other.
]]
local unsigned, unsignable = unpack(KEYS)
local entry, why, kept = unpack(ARGV)
-- End of the signature.
-- @include evidence/quarantined
local found = redis.call('XRANGE', unsigned, entry, entry)[1]
local oldest_ms = quarantined_since(unsignable, tonumber(entry:match('^%d+')))
if not found then return {'gone'} end
local facts = found[2]
for _, word in ipairs({'entry', entry, 'why', why, 'oldest_ms', string.format('%d', oldest_ms)}) do
  facts[#facts + 1] = word
end

-- Effects: none can fail.
redis.call('XADD', unsignable, 'MAXLEN', '~', kept, '*', unpack(facts))
redis.call('XDEL', unsigned, entry)
return {'quarantined'}
