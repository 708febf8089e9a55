--[[ renewal: begins a new period of a ledger before the present one is over. Its end stays. ]]
-- @include base/int64, ledger/increases

local function int64_least(a, b) return int64_lt(b, a) and b or a end

-- Returns what a period gets from the one before. increases: the sum of the present ones.
local function renewal_carried(before, policy, allocated, carry_limit, increases)
  local rest = int64_sub(before.allocated, before.spent)
  rest = rest and int64_sub(rest, before.debt)
  rest = rest and int64_sub(rest, increases)
  if policy == 'CARRY_FORWARD' then
    carry_limit = carry_limit and int64(carry_limit) or INT64_MAX
  else
    carry_limit = policy == 'CAP_AT_ALLOCATED' and allocated or 0
  end
  return rest and int64_lt(0, rest) and int64_least(rest, carry_limit) or 0
end

-- Returns what is allocated, spent and owed. In `renewed` of the ledger are the facts of the event.
local function renewal(budget, before)
  local every, allocated, carry_limit, policy, first, last = unpack(redis.call('HMGET', budget.key, 'period_every',
    'period_allocated', 'carry_limit', 'rollover_policy', 'period_start', 'period_end'))
  local renewed, carried = before.allocated, 0
  if every then
    allocated = int64(allocated) or 0
    local increases = increases_sum(increases_read(budget.key))
    carried = renewal_carried(before, policy, allocated, carry_limit, increases)
    renewed = int64_add(allocated, carried) or INT64_MAX
    renewed = int64_add(renewed, increases) or INT64_MAX
  end
  budget.renewed = {'data.carried', carried, 'data.previous.allocated', before.allocated, 'data.previous.spent', before.spent,
    'data.previous.debt', before.debt}
  if every then
    for _, fact in ipairs({'data.period_start', first, 'data.period_end', last, 'data.previous.period_start', first,
      'data.previous.period_end', last}) do budget.renewed[#budget.renewed + 1] = fact end
  end
  local repaid = int64_least(before.debt, renewed)
  return renewed, repaid, int64_sub(before.debt, repaid)
end
