--[[
funding: applies a funding operation to a ledger. It is moved in memory first, where a figure beyond its
range is still a refusal; `reserved` never moves.
]]
-- @include base/int64, base/int64_wrapping, ledger/budgets, ledger/announced, ledger/announced_write
-- @include ledger/thresholds_crossed, log/events

-- Returns the figures as they are, or nil if one is corrupt.
local function funding_figures(budget)
  local figures = {
    allocated = int64(budget.allocated), remaining = budget.remaining, reserved = budget.reserved,
    spent = int64(budget.spent), debt = int64(budget.debt), limit = int64(budget.limit), over = budget.over,
  }
  return figures.allocated and figures.spent and figures.debt and figures.limit and figures
end

-- Moves the ledger in memory. Returns false if a figure is corrupt or what remains would leave 64 bits. The figures as they were
-- stay in `before`.
local function funding_move(budget, allocated, spent, debt)
  local before, remaining = funding_figures(budget), int64_sub(allocated, spent)
  remaining = remaining and int64_sub(remaining, budget.reserved)
  remaining = remaining and int64_sub(remaining, debt)
  if not (before and remaining) then return false end
  budget.before, budget.allocated, budget.remaining = before, allocated, remaining
  budget.spent, budget.debt, budget.over = spent, debt, int64_lt(before.limit, debt)
  return true
end

-- Returns nil, or the refusal: corrupt, budget_exceeded or out_of_range. spent: the value that RESET_SPENT sets. The figures as
-- they were stay in `before`.
local function funding_refusal(budget, operation, amount, spent)
  local before = funding_figures(budget)
  if not before then return 'corrupt' end
  local after = {spent = before.spent, debt = before.debt}
  if operation == 'CREDIT' then
    after.allocated, after.remaining = int64_add(before.allocated, amount), int64_add(before.remaining, amount)
  elseif operation == 'DEBIT' then
    if int64_lt(before.remaining, amount) then return 'budget_exceeded' end
    after.allocated, after.remaining = int64_sub(before.allocated, amount), int64_sub(before.remaining, amount)
  elseif operation == 'REPAY_DEBT' then
    local repaid = int64_lt(amount, before.debt) and amount or before.debt
    after.debt = int64_sub(before.debt, repaid)
    after.allocated = int64_add(before.allocated, int64_sub(amount, repaid))
    after.remaining = int64_add(before.remaining, amount)
  else
    if operation == 'RENEW' then
      -- @cold ledger/renewal
      after.allocated, after.spent, after.debt = renewal(budget, before)
    else
      after.allocated, after.spent = amount, operation == 'RESET_SPENT' and spent or before.spent
      if operation == 'RESET' then
        -- @cold ledger/increases
        budget.ended = increases_read(budget.key)
      end
    end
    after.remaining = int64_sub(after.allocated, after.spent)
    after.remaining = after.remaining and int64_sub(after.remaining, before.reserved)
    after.remaining = after.remaining and int64_sub(after.remaining, after.debt)
  end
  -- Also what is held must have room among what is charged.
  local is_in_range = after.allocated and after.remaining and int64_add(after.spent, before.reserved)
  if not is_in_range or int64_lt(after.allocated, 0) then return 'out_of_range' end
  budget.before, budget.allocated, budget.remaining = before, after.allocated, after.remaining
  budget.spent, budget.debt, budget.over = after.spent, after.debt, int64_lt(before.limit, after.debt)
  return nil
end

-- Operations after which a charge from before cannot be given back.
local FUNDING_EPOCHS = {RENEW = true, RESET_SPENT = true}

-- Returns names and values of the fields that an operator's funding sets besides the figures.
local function funding_fields(budget, operation, now)
  if budget.ended and #budget.ended > 0 then return 'updated_at_ms', now, 'increases', '' end
  if not FUNDING_EPOCHS[operation] then return 'updated_at_ms', now end
  return 'updated_at_ms', now, 'terms', '1', 'epoch', (tonumber(budget_field(budget.key, 'epoch') or 0) or 0) + 1
end

-- Writes the ledger. Its base moves by the same amounts, so that it still adds up with its records. The rest: names and values of
-- other fields.
local function funding_write(budget, base_spent, base_debt, ...)
  redis.call('HSET', budget.key, 'remaining', budget.remaining, 'spent', budget.spent, 'allocated', budget.allocated,
    'debt', budget.debt, 'is_over_limit', budget.over and '1' or '0',
    'base_spent', int64_wrapping_add(base_spent, int64_sub(budget.spent, budget.before.spent)),
    'base_debt', int64_wrapping_add(base_debt, int64_sub(budget.debt, budget.before.debt)), ...)
  if not budget.over then redis.call('HDEL', budget.key, 'over_limit_by') end
end

-- Returns the thresholds that the operation crossed, though the allocated amount moved as well, in the order of their
-- events, and the direction; none where nothing is allocated.
local function funding_crossed(budget, thresholds, used)
  local before, crossed, direction = budget.before, {}, nil
  if not (int64_lt(0, before.allocated) and int64_lt(0, budget.allocated)) then return crossed end
  local used_before = int64_add(before.spent, before.reserved) or INT64_MAX
  for _, millionths in ipairs(thresholds) do
    local is_reached = threshold_reached(used, millionths, budget.allocated)
    if threshold_reached(used_before, millionths, before.allocated) ~= is_reached then
      direction = is_reached and 'rising' or 'falling'
      table.insert(crossed, is_reached and #crossed + 1 or 1, millionths)
    end
  end
  return crossed, direction
end

local FUNDING_EVENTS = {
  CREDIT = 'budget.funded', DEBIT = 'budget.debited', RESET = 'budget.reset', RESET_SPENT = 'budget.reset_spent',
  RENEW = 'budget.period_started', REPAY_DEBT = 'budget.debt_repaid',
}

-- Emits what follows from the move: thresholds, in one direction alone if `only` names it, and the limit of the debt.
local function funding_consequences(events, budget, unit, scope, thresholds, only)
  local used = int64_add(budget.spent, budget.reserved) or INT64_MAX
  local crossed, direction = funding_crossed(budget, thresholds, used)
  if only and direction ~= only then crossed, direction = {}, nil end
  for _, millionths in ipairs(crossed) do
    event_append(events, 'budget.threshold_crossed', scope, {'data.unit', unit, 'data.threshold_millionths', millionths,
      'data.direction', direction, 'data.allocated', budget.allocated, 'data.remaining', budget.remaining,
      'data.spent', budget.spent, 'data.reserved', budget.reserved})
  end
  -- Thresholds above the utilization may rise again at once.
  local _, at_ms = announced_read(budget)
  announced_write(budget, threshold_highest(thresholds, used, budget.allocated), direction == 'rising' and events.now or at_ms, 0)
  if budget.over ~= budget.before.over then
    event_append(events, budget.over and 'budget.over_limit_entered' or 'budget.over_limit_exited', scope,
      {'data.unit', unit, 'data.debt', budget.debt, 'data.overdraft_limit', budget.limit,
        'data.is_over_limit', budget.over and '1' or '0'})
  end
end

-- Emits the events. request: names and values of the funding event besides the figures, that of the ledger's id first.
local function funding_events(events, budget, operation, unit, scope, thresholds, request)
  local data = {'data.unit', unit, 'data.operation', operation, unpack(request)}
  for _, fact in ipairs(budget.renewed or {}) do data[#data + 1] = fact end
  for _, state in ipairs(budget.renewed and {} or {{'data.previous_state.', budget.before}, {'data.new_state.', budget}}) do
    for _, figure in ipairs({'allocated', 'remaining', 'debt', 'spent', 'reserved'}) do
      data[#data + 1], data[#data + 2] = state[1] .. figure, state[2][figure]
    end
    data[#data + 1], data[#data + 2] = state[1] .. 'status', budget.status
  end
  event_append(events, FUNDING_EVENTS[operation], scope, data)
  if budget.ended then
    -- @cold ledger/increases
    for _, increase in ipairs(budget.ended) do
      event_append(events, 'budget.increase_ended', scope, increase_facts(increase, request[2], unit))
    end
  end
  funding_consequences(events, budget, unit, scope, thresholds)
end
