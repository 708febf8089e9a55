--[[
usage: counts what a tenant used on a day, or in a month, by unit, scope, API key and action. A combination of these is a field,
`<UNIT> <scope below the tenant, or -> <key_id> <bytes of kind> <kind> <name>`, and has the value `<charged> <count>[ <refunded>]`,
with ` +` behind it if a sum went beyond 64 bits.
]]
-- @include base/int64

local function usage_combination(unit, scope_path, key_id, action_kind, action_name)
  local kind, slash = action_kind or '', scope_path:find('/', 1, true)
  return unit .. ' ' .. (slash and scope_path:sub(slash + 1) or '-') .. ' ' .. (key_id or '-') .. ' ' .. #kind .. ' ' .. kind .. ' '
    .. (action_name or '')
end

-- Reads, before the effects, what is known of a combination; never refuses. is_saturated: what is added went beyond 64 bits itself.
-- Returns the function that counts it, then its key.
local function usage_count(usage, combination, charged, count, refunded, is_saturated)
  local key, field, value, combinations = usage, combination, redis.call('HGET', usage, combination), nil
  if not value then
    -- @cold ledger/usage_place
    key, field, value, combinations = usage_place(usage, combination)
  end
  local before, times = (value or '0 0'):match('^(%d+) (%d+)$')
  local number = refunded == 0 and not is_saturated and int64(before)
  local sum = number and int64_add(number, charged)
  if sum then
    value = int64_text(sum) .. ' ' .. times + count
  else
    -- @cold ledger/usage_sum
    value = usage_sum(value or '0 0', charged, count, refunded, is_saturated)
  end
  return function()
    if combinations then redis.call('HSET', usage, 'combinations', combinations) end
    redis.call('HSET', key, field, value)
  end, key
end
