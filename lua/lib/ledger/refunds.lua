--[[
refunds: the refunds of a charge. A line each in the record: time, amount, and for each depth that got something back, what its debt
and what it has spent fell by, as depth:spent:debt. A record has 32 at most, so all are read at once.
]]
-- @include base/int64

local REFUNDS_MAX = 32

-- Returns how many there are, and their sum.
local function refunds_sum(text)
  local count, sum = 0, 0
  for amount in text:gmatch('%d+ (%d+)[^\n]*') do count, sum = count + 1, int64_add(sum, int64(amount) or 0) or INT64_MAX end
  return count, sum
end

-- Returns by depth what has been given back: spent and debt.
local function refunds_given(text)
  local given = {}
  for depth, spent, debt in text:gmatch(' (%d):(%d+):(%d+)') do
    local known = given[depth] or {spent = 0, debt = 0}
    given[depth] = {
      spent = int64_add(known.spent, int64(spent)) or INT64_MAX, debt = int64_add(known.debt, int64(debt)) or INT64_MAX,
    }
  end
  return given
end
