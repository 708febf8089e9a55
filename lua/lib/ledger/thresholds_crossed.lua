--[[
thresholds_crossed: finds the utilization thresholds that an operation crossed. A threshold is turned into the amount
at which it is reached, so everything stays integer.
]]
-- @include base/int64, ledger/announced

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

-- Returns whether use has reached a threshold.
local function threshold_reached(used, millionths, allocated)
  return not int64_lt(used, threshold_amount(millionths, allocated))
end

-- Returns the highest threshold that use has reached; 0 for none, and where nothing is allocated.
local function threshold_highest(thresholds, used, allocated)
  local highest = 0
  if not int64_lt(0, allocated) then return highest end
  for _, millionths in ipairs(thresholds) do
    if threshold_reached(used, millionths, allocated) then highest = millionths end
  end
  return highest
end

-- Returns the thresholds that fell, in descending order, those that rose, in ascending order, and the highest that is
-- announced afterwards. announced: the highest before, 0 for none; may_fall: whether its announcement is old. One that the
-- tenant does not have any more falls without an event.
local function thresholds_crossed(thresholds, allocated, used_before, used, announced, may_fall)
  local fallen, risen = {}, {}
  if not int64_lt(0, allocated) then return fallen, risen, announced end
  if announced == 0 then announced = threshold_highest(thresholds, used_before, allocated) end
  local lowest_used, remaining = int64_lt(used, used_before) and used or used_before, 0
  for _, millionths in ipairs(thresholds) do
    if not may_fall or millionths > announced then break end
    if threshold_reached(lowest_used, millionths - ANNOUNCED_BAND, allocated) then
      remaining = millionths
    else
      table.insert(fallen, 1, millionths)
    end
  end
  if may_fall and announced > 0 and not threshold_reached(lowest_used, announced - ANNOUNCED_BAND, allocated) then
    announced = remaining
  end
  for _, millionths in ipairs(thresholds) do
    if millionths > announced and not threshold_reached(used_before, millionths, allocated)
      and threshold_reached(used, millionths, allocated) then risen[#risen + 1] = millionths end
  end
  return fallen, risen, risen[#risen] or announced
end
