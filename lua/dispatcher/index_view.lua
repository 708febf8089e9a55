#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/index_rows.rs.
Adds rows to the indexes of a view over all tenants, and moves the cursors of the outboxes that they came from, both or
neither. A cursor that is not to move yet is its own next one. Where a cursor is not as the caller read it, another has
followed that outbox meanwhile, and nothing of it is written. Adding a row again changes nothing. A cursor that is no id
counts as none.

Raises where the key of an index has another type.

KEYS[1]    write  cursors  hash  {all}:cursors
KEYS[2..]  write  indexes  zset  {all}:<view>:<day> | {all}:<view>:<kind>:<day> | {all}:<view>_ids:<day> | {all}:denials:<minute>

ARGV[1]                 ends_ms   n, then n more  When each index ends.
ARGV[ends_ms_to + 1..]  followed  to the end
    In order: partition, '' for rows that need no cursor; its cursor as it was read or ''; its cursor to be; a number of
    places; and in these for each row the number of its index, from 1; its score, or + and by how much the score rises
    if the row before it was not there yet; its member.

Replies, the first that applies:
  indexed added
Writes:
  The indexes and the cursors of the outboxes whose reply is 1.
]]
local cursors = KEYS[1]
local indexes_from = 2
local ends_ms_from = 2
local ends_ms_to = 1 + ARGV[1]
local followed_from = ends_ms_to + 1
-- End of the signature.
local reply, rows, moved = {'indexed'}, {}, {}
local at = followed_from
while at <= #ARGV do
  local partition, read, next, rows_to = ARGV[at], ARGV[at + 1], ARGV[at + 2], at + 3 + ARGV[at + 3]
  local stored = partition ~= '' and redis.call('HGET', cursors, partition) or ''
  if not stored:find('^%d+%-%d+$') then stored = '' end
  local is_next = stored == read
  if is_next then
    for row = at + 4, rows_to, 3 do rows[#rows + 1] = row end
    if partition ~= '' then moved[#moved + 1], moved[#moved + 2] = partition, next end
  end
  reply[#reply + 1] = is_next and 1 or 0
  at = rows_to + 1
end
for i = indexes_from, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'zset' and kind ~= 'none' then error(KEYS[i] .. ': a ' .. kind .. ' where an index should be') end
end

-- Effects: none can fail.
local new = 0
for _, row in ipairs(rows) do
  local index, score, member = KEYS[ARGV[row] + indexes_from - 1], ARGV[row + 1], ARGV[row + 2]
  local by = score:match('^%+(%d+)$')
  if not by then
    new = redis.call('ZADD', index, score, member)
  elseif new == 1 then
    redis.call('ZINCRBY', index, by, member)
  end
end
for i = indexes_from, #KEYS do redis.call('PEXPIREAT', KEYS[i], ARGV[ends_ms_from + i - indexes_from]) end
for i = 1, #moved, 2 do redis.call('HSET', cursors, moved[i], moved[i + 1]) end
return reply
