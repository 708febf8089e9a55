--[[
burn: counts recent charges of a ledger, for burn rates. A window has ten buckets; the buckets of each window that is
watched lie in rows of ten, so that a ledger needs fifteen fields for a window and the twelve before it. Totals and ratios are
doubles, so above 2^53 they may round: a burn rate is a warning, and no amount depends on it.
]]

local BURN_ROWS, BURN_BUCKETS = 15, 10

-- Whether a filter of a subscription matches a scope, as in fan-out.
local function burn_filter_allows(filter, scope)
  if not filter:find('%S') then return true end
  if filter:sub(-1) ~= '*' then return filter == scope end
  local prefix = filter:sub(1, -2)
  return prefix == '' or #scope > #prefix and scope:sub(1, #prefix) == prefix
end

-- Returns the watched limits of a ledger, {above, window} each, and the windows once each.
local function burn_limits(watched, scope)
  local limits, windows, seen = {}, {}, {}
  for above, window, filter in (watched or ''):gmatch('burn_rate:([^:%s]+):(%d+):(%S*)') do
    filter = filter:gsub('%%(%x%x)', function(byte) return string.char(tonumber(byte, 16)) end)
    if burn_filter_allows(filter, scope) and not seen[above .. ' ' .. window] then
      seen[above .. ' ' .. window] = true
      limits[#limits + 1] = {above, tonumber(window)}
      if not seen[window] then seen[window], windows[#windows + 1] = true, tonumber(window) end
    end
  end
  return limits, windows
end

-- Returns the number of the present bucket of a window, and when the next one begins.
local function burn_bucket(window, now)
  local bucket = math.floor(now / (window * 100))
  return bucket, (bucket + 1) * window * 100
end

-- Returns the row of a bucket: its field, its number and its amounts, from what is stored there.
local function burn_row(window, bucket)
  local row = math.floor(bucket / BURN_BUCKETS)
  return window .. '.' .. row % BURN_ROWS, row
end

-- Returns the number of a stored row and its amounts, oldest first.
local function burn_amounts(stored)
  local amounts, row = {}, nil
  for word in stored:gmatch('%d+') do
    if row then amounts[#amounts + 1] = tonumber(word) else row = tonumber(word) end
  end
  return row, amounts
end
