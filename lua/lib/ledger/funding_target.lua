--[[ funding_target: reads the ledger that an operator funds. ]]
-- @include base/int64, ledger/budgets

-- Returns the refusal; or nil and the ledger, with its id and its base.
local function funding_target(key, foreign, now, until_ms)
  if foreign == '1' then return {'foreign_budget'} end
  local budget = budget_read(key, 0)
  if budget == false then return {'budget_not_found'} end
  if not budget then return {'corrupt', key} end
  if budget.status == 'FROZEN' then return {'budget_frozen'} end
  if budget.status == 'CLOSED' then return {'budget_closed'} end
  local ledger_id, base_spent, base_debt = unpack(redis.call('HMGET', key, 'ledger_id', 'base_spent', 'base_debt'))
  budget.ledger_id, budget.base_spent, budget.base_debt = ledger_id, int64(base_spent or '0'), int64(base_debt or '0')
  if budget.status ~= 'ACTIVE' or not (ledger_id and budget.base_spent and budget.base_debt) then return {'corrupt', key} end
  if not budget.turns_at_ms then return nil, budget end
  -- @cold ledger/turns
  return turns_due({budget}, now, until_ms), budget
end
