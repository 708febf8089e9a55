--[[
place: where an entry of evidence is in its stream. Places only rise, so an entry of a clock that was set back comes behind those
of before, at their time. Its record then keeps the place, or it would be taken for one whose entry is long gone.
]]

-- An entry may be so far ahead of the time of its record: by more than a script takes.
local EVIDENCE_AHEAD_MS = 60000

-- Milliseconds and sequence of a place.
local function entry_place(place)
  local ms, sequence = place:match('^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(sequence)
end

-- Adds the place to what the record keeps, where its time says something else.
local function evidence_place(kept, entry, now)
  if tonumber(entry:match('^%d+')) >= now + EVIDENCE_AHEAD_MS then kept[#kept + 1], kept[#kept + 2] = 'queued', entry end
end
