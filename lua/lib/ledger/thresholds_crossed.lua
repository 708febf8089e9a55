--[[
thresholds_crossed: finds the utilization thresholds that an operation crossed. A threshold is turned into the amount
at which it is reached, so everything stays integer.
]]
-- @include base/int64

-- Returns ceil(millionths * allocated / 10^6), exact.
local function threshold_amount(millionths, allocated)
  if type(allocated) == 'number' then
    local rest = allocated % 1e6
    return millionths * ((allocated - rest) / 1e6) + math.ceil(millionths * rest / 1e6)
  end
  local millions, rest = allocated:sub(1, -7), tonumber(allocated:sub(-6))
  local high, low = tonumber(millions:sub(1, -8)) or 0, tonumber(millions:sub(-7))
  local high_part = millionths * high -- times 10^7
  local limb = math.floor(high_part / 1e3)
  local low_part = millionths * low + math.ceil(millionths * rest / 1e6)
  return int64_from_limbs(limb, (high_part - limb * 1e3) * 1e7 + low_part)
end

-- Returns the thresholds between two amounts in use: ascending when use rose, descending when it fell.
local function thresholds_crossed(thresholds, allocated, used_before, used_after)
  local crossed, rising = {}, int64_lt(used_before, used_after)
  if not int64_lt(0, allocated) then return crossed end
  local first, last, step = 1, #thresholds, 1
  if not rising then first, last, step = last, first, -1 end
  for i = first, last, step do
    local amount = threshold_amount(thresholds[i], allocated)
    if int64_lt(used_before, amount) ~= int64_lt(used_after, amount) then crossed[#crossed + 1] = thresholds[i] end
  end
  return crossed, rising and 'rising' or 'falling'
end
