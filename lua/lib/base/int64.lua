--[[
int64: computes exact 64-bit integers in a language whose only number is a double. A figure is a Lua number of up to
15 digits or a decimal string. int64() reads what is computed with, so that the usual case costs no more than plain
arithmetic; a string as it stands in a record works too, only slower. Redis takes either; `..` would round, so
int64_text() makes what is joined. nil means: not an integer, or beyond 64 bits.
]]

local INT64_MAX = '9223372036854775807'
local INT64_BASE = 1e10 -- a long integer is computed as two limbs of this base, both with its sign
local INT64_PLAIN = 1e15 -- below it, arithmetic on numbers is exact, a sum of two included
local tonumber, format, floor, ceil = tonumber, string.format, math.floor, math.ceil

-- Below, `a - 0 == a` tests whether a is a number: a string equals none. Unlike type() it calls nothing.

local function int64_limbs(value)
  if value - 0 == value then
    local high = value < 0 and ceil(value / INT64_BASE) or floor(value / INT64_BASE)
    return high, value - high * INT64_BASE
  end
  if #value <= 10 then return 0, tonumber(value) end
  local low, high = tonumber(value:sub(-10)), tonumber(value:sub(1, -11)) or 0
  if value:byte(1) == 45 then return high, -low end
  return high, low
end

-- Returns the integer high * 10^10 + low, or nil beyond 64 bits. Both limbs are below 2^53.
local function int64_from_limbs(high, low)
  local carry = low < 0 and ceil(low / INT64_BASE) or floor(low / INT64_BASE)
  high, low = high + carry, low - carry * INT64_BASE
  if high > 0 and low < 0 then high, low = high - 1, low + INT64_BASE end
  if high < 0 and low > 0 then high, low = high + 1, low - INT64_BASE end
  if high > 922337203 or (high == 922337203 and low > 6854775807) then return nil end
  if high < -922337203 or (high == -922337203 and low < -6854775808) then return nil end
  if high < 1e5 and high > -1e5 then return high * INT64_BASE + low end
  return format('%.0f%010.0f', high, math.abs(low))
end

-- Reads a decimal; false, nil and anything but a plain integer give nil.
local function int64(text)
  if not text then return nil end
  if #text <= 15 then
    local number = tonumber(text)
    if number and number % 1 == 0 then return number + 0 end
    return nil
  end
  if #text > 20 or not text:find('^%-?[1-9]%d+$') then return nil end
  return int64_from_limbs(int64_limbs(text))
end

-- Returns the decimal.
local function int64_text(value)
  if value - 0 == value then return format('%d', value) end
  return value
end

local function int64_lt(a, b)
  if a - 0 == a and b - 0 == b then return a < b end
  local a_high, a_low = int64_limbs(a)
  local b_high, b_low = int64_limbs(b)
  return a_high < b_high or (a_high == b_high and a_low < b_low)
end

local function int64_add(a, b)
  if a - 0 == a and b - 0 == b then
    local sum = a + b
    if sum < INT64_PLAIN and sum > -INT64_PLAIN then return sum end
  end
  local a_high, a_low = int64_limbs(a)
  local b_high, b_low = int64_limbs(b)
  return int64_from_limbs(a_high + b_high, a_low + b_low)
end

local function int64_sub(a, b)
  if a - 0 == a and b - 0 == b then
    local difference = a - b
    if difference < INT64_PLAIN and difference > -INT64_PLAIN then return difference end
  end
  local a_high, a_low = int64_limbs(a)
  local b_high, b_low = int64_limbs(b)
  return int64_from_limbs(a_high - b_high, a_low - b_low)
end
