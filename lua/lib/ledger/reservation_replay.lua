--[[ reservation_replay: replays a commit or release. ]]

-- Returns the reply, or nil for a request under another key. Only an ended record has what this reads.
local function reservation_replay(key, key_digest, payload_hash, now)
  local status, finish, depths = unpack(redis.call('HMGET', key, 'status', 'finish', 'budgeted'))
  local finish_key, finish_hash = (finish or ''):match('^(%S+) (%S+)$')
  if finish_key ~= key_digest then return nil end
  if finish_hash ~= payload_hash then return {'idempotency_mismatch'} end
  local names = {'unit', 'estimate', 'charged', 'scope_path', 'budgeted'}
  local operation = status == 'COMMITTED' and 'commit.' or 'release.'
  for depth in (depths or ''):gmatch('%d+') do names[#names + 1] = operation .. depth end
  local record = {}
  for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do
    if value then record[#record + 1], record[#record + 2] = names[i], value end
  end
  return {'replayed', now, record}
end
