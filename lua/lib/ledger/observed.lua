--[[ observed: reports what the ledgers of a request that observe would have refused. ]]
-- @include ledger/budgets, log/events, log/denials

-- Returns depth and reason of each, for record and reply; '' if there is none.
local function observed_text(budgets)
  local words = {}
  for _, one in ipairs(budgets.observed) do words[#words + 1] = one.depth .. ' ' .. one.reason end
  return table.concat(words, ' ')
end

-- Emits or counts an event each. log: what denials_check takes, and the bound per minute. request: as denial_facts has it.
local function observed_append(events, log, budgets, scope_path, unit, amount, request)
  for _, one in ipairs(budgets.observed) do
    denial_append(events, log[1], log[2], log[3], scope_path,
      denial_facts(one.reason, unit, amount, one, budget_scope(scope_path, one.depth), request), 'reservation.would_deny')
  end
end
