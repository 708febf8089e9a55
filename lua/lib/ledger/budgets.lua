--[[
budgets: reads the ledgers of the scopes of one request. For each of them, at every moment: remaining = allocated -
spent - reserved - debt.
]]
-- @include base/int64

-- Depths of scopes, the root at 1, as records have them: printing a number would cost more.
local DEPTHS = {'1', '2', '3', '4', '5', '6'}

-- Reads one ledger: false when there is none, nil when the record is corrupt. Figures that nothing is computed with stay
-- strings. Most ledgers have figures alone, which an empty `terms` says: reading the other fields would cost more than the rest.
local function budget_read(key, depth)
  local status, remaining, reserved, spent, allocated, debt, limit, over, announced, terms = unpack(redis.call('HMGET', key,
    'status', 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit', 'is_over_limit', 'announced', 'terms'))
  local turns_at_ms, limits, observes, epoch
  if terms ~= '' then
    turns_at_ms, limits, observes, epoch = unpack(redis.call('HMGET', key, 'turns_at_ms', 'limits', 'observes', 'epoch'))
  end
  if not status and not remaining and not allocated then return false end
  remaining, reserved = int64(remaining), int64(reserved)
  if not (status and remaining and reserved and spent and allocated and debt and limit) then return nil end
  return {
    key = key, depth = depth, status = status, remaining = remaining, reserved = reserved, spent = spent,
    allocated = allocated, debt = debt, limit = limit, over = over == '1', announced = announced,
    turns_at_ms = turns_at_ms ~= '' and turns_at_ms or nil, limits = limits ~= '' and limits or nil,
    observes = observes == '1' or nil, epoch = epoch,
  }
end

-- Returns a field that few requests need; false where the record has none.
local function budget_field(key, name) return redis.call('HGET', key, name) end

-- Returns the enclosing scope at a depth of a path, the root at 1.
local function budget_scope(scope_path, depth)
  local stop = 0
  for _ = 1, tonumber(depth) do
    stop = scope_path:find('/', stop + 1, true)
    if not stop then return scope_path end
  end
  return scope_path:sub(1, stop - 1)
end

-- Returns a ledger as it is now in one short text: allocated spent reserved [debt limit over].
local function budget_snapshot(budget)
  -- Once it has moved, it is text.
  local reserved = budget.before_reserved and budget.reserved or int64_text(budget.reserved)
  local used = budget.allocated .. ' ' .. budget.spent .. ' ' .. reserved
  if budget.debt == '0' and budget.limit == '0' and not budget.over then return used end
  return used .. ' ' .. budget.debt .. ' ' .. budget.limit .. (budget.over and ' 1' or ' 0')
end
