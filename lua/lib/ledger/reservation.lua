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
