--[[ evaluate_other_units: finds the units that a scope has, for a request in another unit. ]]

-- Called where no scope has a ledger in the unit. Returns the first scope that has ledgers in others, and those units.
local function evaluate_other_units(prefix, unit, scope_path)
  local stop = 0
  repeat
    stop = scope_path:find('/', stop + 1, true)
    local scope = stop and scope_path:sub(1, stop - 1) or scope_path
    local found = {}
    for _, other in ipairs({'USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS'}) do
      if other ~= unit and redis.call('EXISTS', prefix .. other .. ':' .. scope) == 1 then found[#found + 1] = other end
    end
    if #found > 0 then return scope, table.concat(found, ' ') end
  until not stop
  return nil
end
