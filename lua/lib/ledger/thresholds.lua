--[[
thresholds: reads the utilization thresholds of a tenant. Utilization is (spent + reserved) / allocated; a threshold
is stored in millionths.
]]

local THRESHOLDS_DEFAULT = {800000, 950000, 1000000}

-- Returns the thresholds of the tenant's record, or the built-in ones.
local function thresholds_parse(text)
  if not text then return THRESHOLDS_DEFAULT end
  local thresholds = {}
  for word in text:gmatch('%d+') do thresholds[#thresholds + 1] = tonumber(word) end
  return #thresholds > 0 and thresholds or THRESHOLDS_DEFAULT
end
