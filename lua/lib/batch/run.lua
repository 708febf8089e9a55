--[[
run: runs the members of a batch in order, and answers for each. A member that raises leaves the others as they are.
]]
-- @include batch/shared

-- A batch ends when it has done this much, so that no call takes more than a millisecond.
local BATCH_WORK_MAX, BATCH_MEMBER_WORK = 600, 10

-- Whether an error says that a slot is moving to another node: then the member has done nothing yet.
local function batch_has_moved(message)
  return not batch.has_charged and (message:find('non local key', 1, true) or message:find('TRYAGAIN', 1, true))
end

-- Returns the text of an error, with the line of the batch where it was raised. Called where it is raised: Redis's own pcall
-- returns the message alone.
local function batch_error(raised)
  if type(raised) ~= 'table' then return 'ERR ' .. raised end
  -- The caller of what raised it is the fourth from here: pcall, this function, redis.call.
  local _, place = pcall(error, '', 4)
  return raised.err .. ' script: batch, on @' .. place:sub(1, -3)
end

-- Returns the reply of a member: its own, or `fault` or `unknown` and the error. It is `unknown` to the client whether a request
-- was done that failed after its record was written; under the same idempotency key it gets its response.
local function batch_member(operation, keys, args)
  batch.has_charged, batch.work = false, batch.work + BATCH_MEMBER_WORK
  local is_done, reply = xpcall(function() return operation(keys, args) end, batch_error)
  if is_done then return reply end
  if batch_has_moved(reply) then return {'again'} end
  return {batch.has_charged and 'unknown' or 'fault', reply}
end

-- Reads the next member; src/driver/batch/message.rs writes it. ARGV has its operation, the numbers of its keys and of its
-- arguments, and the arguments, KEYS the keys. Without an operation it is like the last one but in some places: ARGV has how many of
-- either, the places of the keys, and place and value of each argument.
local function batch_read(member, keys, args)
  local operation, key_count, arg_count = args[member.arg], tonumber(args[member.arg + 1]), tonumber(args[member.arg + 2])
  local key, arg = member.key, member.arg + 3
  if operation ~= '' then
    member.operation = operation
    member.keys, member.args = {unpack(keys, key, key + key_count - 1)}, {unpack(args, arg, arg + arg_count - 1)}
    member.key, member.arg = key + key_count, arg + arg_count
    return
  end
  for i = 0, key_count - 1 do member.keys[tonumber(args[arg + i])] = keys[key + i] end
  arg = arg + key_count
  for i = arg, arg + 2 * arg_count - 1, 2 do member.args[tonumber(args[i])] = args[i + 1] end
  member.key, member.arg = key + key_count, arg + 2 * arg_count
end

-- Returns the replies; `again` to each member that has not run, which its caller sends alone. keys and args: those of the batch.
local function batch_run(operations, keys, args)
  local replies, member, is_over = {}, {key = 1, arg = 1}, false
  while args[member.arg] do
    batch_read(member, keys, args)
    local reply = is_over and {'again'} or batch_member(operations[member.operation], member.keys, member.args)
    is_over = is_over or reply[1] == 'again' or batch.work > BATCH_WORK_MAX
    replies[#replies + 1] = reply
  end
  batch_write_ledgers()
  return replies
end
