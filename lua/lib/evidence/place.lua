--[[
place: the place of an entry of evidence in its stream. Places only rise, so after the clock was set back a new entry gets the
time of the last one. Its record then stores the place; otherwise the entry would count as removed long ago.
]]

-- How far an entry may be ahead of its record without a stored place; more than a script takes.
local EVIDENCE_AHEAD_MS = 60000

-- Returns milliseconds and sequence of a place.
local function entry_place(place)
  local ms, sequence = place:match('^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(sequence)
end

-- Adds the place to the fields of the record, if it cannot be derived from the record's time.
local function evidence_place(kept, entry, now)
  if tonumber(entry:match('^%d+')) >= now + EVIDENCE_AHEAD_MS then kept[#kept + 1], kept[#kept + 2] = 'queued', entry end
end
