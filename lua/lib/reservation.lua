--[[
reservation: what commit, release and extend ask of a record before they ask what is wanted. A dry run keeps its
outcome under the key of the reservation that it did not make; to everything else it is absent.
]]

-- The fields named, or nil: there is no such reservation.
local function reservation_read(key, ...)
  local fields = redis.call('HMGET', key, 'status', 'tenant', 'scope_path', ...)
  if not fields[1] or fields[1] == 'DRY_RUN' then return nil end
  return fields
end

-- nil, or the refusal on the way to a record: not_found | foreign | scope_forbidden.
local function reservation_refusal(fields, tenant, filter)
  if not fields then return 'not_found' end
  if tenant == '' then return nil end -- the admin key acts on any tenant's
  if fields[2] ~= tenant then return 'foreign' end
  if not scope_filter_allows(filter, fields[3]) then return 'scope_forbidden' end
  return nil
end

-- The answer to a repeated commit or release, nil for one under another key: the names and values that it is told from.
-- Only an ended record has what this reads.
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
