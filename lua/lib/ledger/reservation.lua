--[[
reservation: reads a record for commit, release, extend and get, and decides whether it may be seen. A dry run keeps
its outcome under the key of the reservation that it did not make; to everything else it is absent.
]]
-- @include access/scope_filter

-- Returns the fields, or nil where there is no such reservation.
local function reservation_read(key, ...)
  local fields = redis.call('HMGET', key, 'status', 'tenant', 'scope_path', ...)
  if not fields[1] or fields[1] == 'DRY_RUN' then return nil end
  return fields
end

-- Returns nil, or the refusal and its filter: not_found, foreign or scope_forbidden.
local function reservation_refusal(fields, tenant, filter)
  if not fields then return 'not_found' end
  if tenant == '' then return nil end -- the admin key may see any tenant's
  if fields[2] ~= tenant then return 'foreign' end
  if not scope_filter_allows(filter, fields[3]) then return 'scope_forbidden', filter end
  return nil
end
