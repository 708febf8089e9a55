--[[
record_changes: the changes of a record by a request. args from..to holds, of each change, a member of the request, the field
of the record, then = and the value, or '' to remove the field. Returns what HSET takes, what HDEL takes, and the names of the
members that change. A field with its stored value is no change.
]]

local function record_changes(key, args, from, to)
  local set, removed, changed = {}, {}, {}
  for i = from, to, 3 do
    local member, field, value = args[i], args[i + 1], args[i + 2]
    value = value ~= '' and value:sub(2)
    if redis.call('HGET', key, field) ~= value then
      if value then set[#set + 1], set[#set + 2] = field, value else removed[#removed + 1] = field end
      if changed[#changed] ~= member then changed[#changed + 1] = member end
    end
  end
  return set, removed, changed
end
