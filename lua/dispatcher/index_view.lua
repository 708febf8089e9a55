#!lua
--[[
index_view: adds rows to the indexes of a view over all tenants, and moves the cursors of the outboxes that they came
from, both or neither. Where a cursor is not as the caller read it, another has followed that outbox meanwhile, and nothing
of it is written. Adding a row again changes nothing. A cursor that is no id counts as none.
KEYS[1] cursors  hash  partition → id of the last outbox entry that was followed    KEYS[2..] indexes  zset  of a day or a minute each
ARGV[1..] when each index ends, ms; then in turn: partition ('': rows that need no cursor), its cursor as it was read or '',
its cursor to be, a number of rows, and for each row: the number of its index, from 1; score, or
`+` and by how much the score rises if the row before it was not there yet; member
Reply: indexed, then for each partition its cursor as it is now
Raises where a key of another type stands in the place of an index.
]]
local cursors, reply, added, moved = KEYS[1], {'indexed'}, {}, {}
local at = #KEYS
while at <= #ARGV do
  local partition, read, next, rows = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local stored = partition ~= '' and redis.call('HGET', cursors, partition) or ''
  if not stored:find('^%d+%-%d+$') then stored = '' end
  if stored == read then
    for row = at + 4, at + 3 + 3 * rows, 3 do added[#added + 1] = row end
    if partition ~= '' then moved[#moved + 1], moved[#moved + 2] = partition, next end
    stored = next
  end
  reply[#reply + 1] = stored
  at = at + 4 + 3 * rows
end
for i = 2, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'zset' and kind ~= 'none' then error(KEYS[i] .. ': a ' .. kind .. ' stands in the place of an index') end
end

-- Effects: none can fail.
local new = 0
for _, row in ipairs(added) do
  local index, score, member = KEYS[ARGV[row] + 1], ARGV[row + 1], ARGV[row + 2]
  local by = score:match('^%+(%d+)$')
  if not by then
    new = redis.call('ZADD', index, score, member)
  elseif new == 1 then
    redis.call('ZINCRBY', index, by, member)
  end
end
for i = 2, #KEYS do redis.call('PEXPIREAT', KEYS[i], ARGV[i - 1]) end
for i = 1, #moved, 2 do redis.call('HSET', cursors, moved[i], moved[i + 1]) end
return reply
