--[[
counts: counts how many things of a kind and status a partition has, for the overview: `tenant <STATUS>`, `budget
<UNIT> <STATUS>`, `webhook <STATUS>`. A script that writes a status moves the counts as well.
]]
-- @include base/counter

-- Called before the effects: raises where the counts cannot be moved.
local function counts_check(counts)
  for _, count in ipairs(redis.call('HVALS', counts)) do counter_check(counts, count) end
end

-- Moves the counts. from, to: a status, or nil for a thing that begins or ends.
local function counts_move(counts, kind, from, to)
  if from == to then return end
  if from then redis.call('HINCRBY', counts, kind .. ' ' .. from, -1) end
  if to then redis.call('HINCRBY', counts, kind .. ' ' .. to, 1) end
end
