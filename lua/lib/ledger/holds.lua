--[[
holds: what many reservations give back at once: each ledger is read once and written once. All is judged before the first
write; a reservation with a ledger that is missing, corrupt or of another type gives nothing back.
]]
-- @include ledger/event_preconditions
local function holds_new(budget_prefix)
  return {prefix = budget_prefix, budgets = {}, kinds = {}, order = {}}
end

-- The ledger under a key, or false when it is missing, is corrupt or has another type (which would raise, so that this page
-- failed for ever).
local function holds_ledger(key, depth)
  local budget = redis.call('TYPE', key).ok == 'hash' and budget_read(key, depth)
  local sound = budget and not int64_lt(budget.reserved, 0) and ledger_sound(budget)
  return sound and budget or false
end

-- The ledgers that reservations of this kind are held on, or false.
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

-- Counts a hold as given back, if each of its ledgers has room for it; whether it has.
local function holds_return(holds, unit, scope_path, depths, estimate)
  local held = holds_ledgers(holds, unit, scope_path, depths)
  for _, budget in ipairs(held or {}) do
    local returned = int64_add(budget.returned, estimate)
    if not returned or int64_lt(budget.reserved, returned) or not int64_add(budget.remaining, returned) then return false end
  end
  for _, budget in ipairs(held or {}) do budget.returned = int64_add(budget.returned, estimate) end
  return held ~= false
end

-- The ledgers that get something back, moved in memory.
local function holds_moved(holds)
  local moved = {}
  for _, budget in ipairs(holds.order) do
    if budget.returned ~= 0 then
      ledger_move_hold(budget, budget.returned, int64_sub(0, budget.returned)) -- holds_return has proved that it fits
      moved[#moved + 1] = budget
    end
  end
  return moved
end

-- A stored time in milliseconds, or nil.
local function holds_time(text) return text and #text <= 15 and text:find('^%d+$') and tonumber(text) end
