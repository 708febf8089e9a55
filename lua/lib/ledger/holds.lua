--[[
holds: returns many holds at once: each ledger is read once and written once. Everything is checked before the first
write; a reservation with a ledger that is missing, corrupt or of another type returns nothing.
]]
-- @include base/int64, ledger/budgets, ledger/event_preconditions, ledger/ledger_hold

local function holds_new(budget_prefix)
  return {prefix = budget_prefix, budgets = {}, kinds = {}, order = {}}
end

-- Returns the ledger under a key, or false when it is missing, corrupt or of another type: raising would fail the same page
-- forever.
local function holds_ledger(key, depth)
  local budget = redis.call('TYPE', key).ok == 'hash' and budget_read(key, depth)
  local sound = budget and not int64_lt(budget.reserved, 0) and ledger_sound(budget)
  return sound and budget or false
end

-- Returns the ledgers that reservations of this kind hold on, or false.
local function holds_ledgers(holds, unit, scope_path, depths)
  local kind = unit .. ' ' .. depths .. ' ' .. scope_path
  if holds.kinds[kind] ~= nil then return holds.kinds[kind] end
  local found = {}
  for text in depths:gmatch('%d+') do
    local scope = budget_scope(scope_path, text)
    local key = holds.prefix .. unit .. ':' .. scope
    local budget = holds.budgets[key]
    if budget == nil then
      budget = holds_ledger(key, text)
      holds.budgets[key] = budget
      if budget then
        budget.scope, budget.unit, budget.returned = scope, unit, 0
        holds.order[#holds.order + 1] = budget
      end
    end
    if not budget then found = nil break end
    found[#found + 1] = budget
  end
  holds.kinds[kind] = found and #found > 0 and found or false
  return holds.kinds[kind]
end

-- Counts a hold as returned, if each of its ledgers has room for it; returns whether it has.
local function holds_return(holds, unit, scope_path, depths, estimate)
  local held = holds_ledgers(holds, unit, scope_path, depths)
  for _, budget in ipairs(held or {}) do
    local returned = int64_add(budget.returned, estimate)
    if not returned or int64_lt(budget.reserved, returned) or not int64_add(budget.remaining, returned) then return false end
  end
  for _, budget in ipairs(held or {}) do budget.returned = int64_add(budget.returned, estimate) end
  return held ~= false
end

-- Moves the ledgers in memory by the returned holds, and returns these ledgers.
local function holds_moved(holds)
  local moved = {}
  for _, budget in ipairs(holds.order) do
    if budget.returned ~= 0 then
      ledger_move_hold(budget, budget.returned, int64_sub(0, budget.returned)) -- holds_return has checked that it fits
      moved[#moved + 1] = budget
    end
  end
  return moved
end

-- Returns a stored time in milliseconds, or nil.
local function holds_time(text) return text and #text <= 15 and text:find('^%d+$') and tonumber(text) end
