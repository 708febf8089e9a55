--[[ stored: reads the fields of an entry of an audit log, as XRANGE returns it. ]]

-- nil where the entry has no such field.
local function field_of(entry, name)
  for at = 1, #entry[2], 2 do
    if entry[2][at] == name then return entry[2][at + 1] end
  end
  return nil
end

-- Its number in the chain; nil for an entry that no script appended.
local function sequence_of(entry)
  return tonumber(field_of(entry, 'sequence'))
end
