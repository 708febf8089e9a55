--[[ chain: reads an audit chain: where it begins, the last seal of a day, and the fields of its entries. ]]

-- Number of the last entry that is gone, and how many are gone in all.
local function chain_anchor(chain)
  local stored = redis.call('HMGET', chain, 'anchor_sequence', 'anchor_dropped')
  return tonumber(stored[1] or '0'), tonumber(stored[2] or stored[1] or '0')
end

-- Number and hash of the last sealed entry of a day; nil where none is sealed.
local function chain_last_seal(seals)
  local sequence, hash = (redis.call('HGET', seals, 'last') or ''):match('^(%d+) (%x+)$')
  return tonumber(sequence), hash
end

-- A field of an entry as XRANGE returns it; nil where it has none.
local function field_of(entry, name)
  for at = 1, #entry[2], 2 do
    if entry[2][at] == name then return entry[2][at + 1] end
  end
  return nil
end

-- The number of an entry; nil for one that no script appended.
local function sequence_of(entry)
  return tonumber(field_of(entry, 'sequence'))
end
