--[[ policies_read: reads a tenant's policies in the order of their ids, from a position on. ]]

-- Adds to a reply: the last id that was looked at, whether none is left, and the records: as many as a number of bytes
-- allows, but one at least.
local function policies_read(reply, policies, prefix, after, rows, bytes)
  local ids = redis.call('ZRANGEBYLEX', policies, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, rows)
  local at, left, read = #reply + 1, tonumber(bytes), 0
  reply[at], reply[at + 1] = '', 0
  for i, id in ipairs(ids) do
    local record = redis.call('HGETALL', prefix .. id)
    for _, text in ipairs(record) do left = left - #text end
    if left < 0 and i > 1 then break end
    reply[at], reply[at + 1 + i], read = id, record, i
  end
  if read == #ids and #ids < tonumber(rows) then reply[at + 1] = 1 end
  return reply
end
