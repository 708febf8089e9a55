--[[
int64_wrapping: adds modulo 2^64, for figures that are only ever compared: funding and retention move the base of a
ledger, and it may have passed 64 bits on the way without harm.
]]
-- @include base/int64

local function int64_wrapping_add(a, b)
  local a_high, a_low = int64_limbs(a)
  local b_high, b_low = int64_limbs(b)
  local high, low = a_high + b_high, a_low + b_low
  return int64_from_limbs(high, low)
    or int64_from_limbs(high - 1844674407, low - 3709551616)
    or int64_from_limbs(high + 1844674407, low + 3709551616)
end
