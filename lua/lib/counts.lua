--[[
counts: how many things of a kind and status a partition has, for the overview: `tenant <STATUS>`, `budget <UNIT>
<STATUS>`, `webhook <STATUS>`. Whoever writes a status moves the counts in the same script, as the first of its effects: a
key that holds something else raises before anything is written.
]]

-- from, to: a status, or nil for one that begins or ends.
local function counts_move(counts, kind, from, to)
  if from == to then return end
  if from then redis.call('HINCRBY', counts, kind .. ' ' .. from, -1) end
  if to then redis.call('HINCRBY', counts, kind .. ' ' .. to, 1) end
end
