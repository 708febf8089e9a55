--[[ policies_read: reads a tenant's policies in the order of their ids, from a position on. ]]

-- Adds to a reply: the last id that was looked at, whether none is left, and the records.
local function policies_read(reply, policies, prefix, after, rows)
  local ids = redis.call('ZRANGEBYLEX', policies, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, rows)
  reply[#reply + 1] = ids[#ids] or ''
  reply[#reply + 1] = #ids < tonumber(rows) and 1 or 0
  for _, id in ipairs(ids) do reply[#reply + 1] = redis.call('HGETALL', prefix .. id) end
  return reply
end
