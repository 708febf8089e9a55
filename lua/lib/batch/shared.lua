--[[
shared: what the members of a batch share. Each runs as if it were alone; but the clock, API keys, tenants and ledgers are
read once, and a ledger that moved is written once, at the end. The functions that read and write them are replaced here, for
the members and for every fragment.
]]
-- @include base/time, access/access, access/tenant, ledger/budgets, ledger/ledger_hold, ledger/ledger_charge
-- @include ledger/announced_write, ledger/thresholds, ledger/due_tenants, log/events

-- What the batch has done so far, in units of a command of Redis or of what takes as long; see batch/run.
local BATCH_LEDGER_WORK, BATCH_EVENT_WORK = 1, 8

-- work: so far. has_charged: whether the present member's record is written, so that its ledgers have moved.
local batch = {work = 0, has_charged = false}

local batch_now = now_ms()
now_ms = function() return batch_now end

-- Returns the function, which then does its work once for each first argument.
local function batch_once(read)
  local known = {}
  return function(key, ...)
    local value = known[key]
    if value == nil then
      value = read(key, ...)
      known[key] = value
    end
    return value
  end
end

access_read = batch_once(access_read)

-- Operations read different numbers of settings.
local batch_tenant_reads, batch_tenant_read = {}, tenant_read
tenant_read = function(tenant_key, ...)
  local fields = select('#', ...)
  local read = batch_tenant_reads[fields]
  if not read then
    read = batch_once(batch_tenant_read)
    batch_tenant_reads[fields] = read
  end
  return read(tenant_key, ...)
end

local batch_thresholds = batch_once(thresholds_parse)
thresholds_parse = function(text) return batch_thresholds(text or '') end

-- A tenant whose earliest due time is in the index needs no later one there.
local batch_due, batch_due_tenants_enter = {}, due_tenants_enter
due_tenants_enter = function(due_tenants, due_ms, tenant)
  local due = tonumber(due_ms)
  if batch_due[tenant] and batch_due[tenant] <= due then return end
  batch_due_tenants_enter(due_tenants, due_ms, tenant)
  batch_due[tenant] = due
end

-- The ledgers as the members that have run leave them, and those that are to be written.
local batch_ledgers, batch_moved, batch_budget_read = {}, {}, budget_read

-- A member gets a copy: what it computes must not reach the next one, unless it charges.
budget_read = function(key, depth)
  local known = batch_ledgers[key]
  if known == nil then
    known = batch_budget_read(key, depth)
    batch_ledgers[key] = known
  end
  batch.work = batch.work + BATCH_LEDGER_WORK
  if not known then return known end
  return {
    key = key, depth = depth, status = known.status, remaining = known.remaining, reserved = known.reserved, spent = known.spent,
    allocated = known.allocated, debt = known.debt, limit = known.limit, over = known.over, announced = known.announced,
    turns_at_ms = known.turns_at_ms, limits = known.limits, observes = known.observes, epoch = known.epoch,
  }
end

local batch_budget_field = budget_field
budget_field = function(key, name)
  local known = batch_ledgers[key]
  if known[name] == nil then known[name] = batch_budget_field(key, name) end
  return known[name]
end

-- Raises nothing, so that the ledgers of a member move with its record.
local function batch_move(budget)
  local known = batch_ledgers[budget.key]
  if not known.moved then
    known.moved = true
    batch_moved[#batch_moved + 1] = known
  end
  known.remaining, known.reserved = budget.remaining, int64(budget.reserved)
  batch.has_charged = true
  return known
end

ledger_write_hold = batch_move

ledger_write_charge = function(budget, by)
  local known = batch_move(budget)
  known.spent, known.is_charged = budget.spent, true
  if budget.has_counted then known.limits, known.has_counted = budget.limits, true end
  if budget.debt_by == 0 and not budget.becomes_over then return end
  known.debt, known.over, known.owes = budget.debt, budget.over, true
  if budget.becomes_over then known.over_limit_by, known.has_over_limit_by = by, true end
end

announced_store = function(budget, text)
  local known = batch_ledgers[budget.key]
  known.announced, known.has_announced = text, true
end

local batch_event_append = event_append
event_append = function(...)
  batch.work = batch.work + BATCH_EVENT_WORK
  return batch_event_append(...)
end

-- Writes the ledgers that moved. Each was read as a hash, so none of these commands can fail.
local function batch_write_ledgers()
  for _, known in ipairs(batch_moved) do
    local fields = {'remaining', int64_text(known.remaining), 'reserved', int64_text(known.reserved)}
    local function add(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
    if known.is_charged then add('spent', known.spent) end
    if known.has_counted then add('limits', known.limits) end
    if known.owes then
      add('debt', known.debt)
      add('is_over_limit', known.over and '1' or '0')
    end
    if known.has_over_limit_by then add('over_limit_by', known.over_limit_by) end
    if known.has_announced then add('announced', known.announced) end
    redis.call('HSET', known.key, unpack(fields))
  end
end
