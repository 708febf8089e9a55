--[[ usage_sum: adds to the value of a combination of usage, where that is more than one sum of 64 bits. ]]
-- @include base/int64

-- A sum that is too large, or cannot be read, is marked for good.
local function usage_sum(value, charged, count, refunded, is_saturated)
  local old_charged, old_count, old_refunded, mark = value:match('^(%d+) (%d+) ?(%d*)( ?%+?)$')
  local charged_sum = int64_add(int64(old_charged) or INT64_MAX, charged)
  local refunded_sum = int64_add(int64(old_refunded ~= '' and old_refunded or '0') or INT64_MAX, refunded)
  local is_exact = charged_sum and refunded_sum and mark == '' and not is_saturated
  return int64_text(charged_sum or INT64_MAX) .. ' ' .. int64_text((tonumber(old_count) or 0) + count)
    .. (refunded_sum == 0 and '' or ' ' .. int64_text(refunded_sum or INT64_MAX)) .. (is_exact and '' or ' +')
end
