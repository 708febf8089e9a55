--[[
run: runs the members of a batch in turn, and answers for each. A member that raises leaves the others as they are.
]]
-- @include batch/shared

-- A batch ends when it has done this much, so that no call takes more than a millisecond.
local BATCH_WORK_MAX, BATCH_MEMBER_WORK = 400, 10

-- Whether an error says that a slot is moving to another node: then the member has done nothing yet.
local function batch_has_moved(message)
  return not batch.has_charged and (message:find('non local key', 1, true) or message:find('TRYAGAIN', 1, true))
end

-- Returns the text of an error, with the line of the batch where it was raised.
local function batch_error(raised)
  if type(raised) ~= 'table' then return 'ERR ' .. raised end
  return raised.err .. ' script: batch, on @user_script:' .. (raised.line or '?')
end

-- Returns the reply of a member: its own, or `fault` or `unknown` and the error. It is `unknown` to the client whether a request
-- was done that failed after its record was written; under the same idempotency key it gets its response.
local function batch_member(operation, keys, args)
  batch.has_charged, batch.work = false, batch.work + BATCH_MEMBER_WORK
  local is_done, reply = pcall(operation, keys, args)
  if is_done then return reply end
  local message = batch_error(reply)
  if batch_has_moved(message) then return {'again'} end
  return {batch.has_charged and 'unknown' or 'fault', message}
end

-- Returns the replies; `again` to each member that has not run, which its caller sends alone. keys and args: those of all members.
local function batch_run(operations, keys, args)
  local replies, key, arg, is_over = {}, 1, 1, false
  while arg <= #args do
    local key_last, arg_first = key + args[arg + 1] - 1, arg + 3
    local arg_last = arg_first + args[arg + 2] - 1
    local reply = {'again'}
    if not is_over then
      reply = batch_member(operations[args[arg]], {unpack(keys, key, key_last)}, {unpack(args, arg_first, arg_last)})
    end
    is_over = is_over or reply[1] == 'again' or batch.work > BATCH_WORK_MAX
    replies[#replies + 1] = reply
    key, arg = key_last + 1, arg_last + 1
  end
  batch_write_ledgers()
  return replies
end
