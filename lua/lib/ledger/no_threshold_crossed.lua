--[[
no_threshold_crossed: finds that the move of a ledger caused no event. It is the usual case, and found without the
functions that emit events.
]]

-- The used amount is at most allocated - remaining, so it stays below the lowest threshold while remaining stays above the
-- rest. Compared as doubles, with a margin.
local function no_threshold_crossed(budget, thresholds, now)
  if budget.over or (budget.debt_by or 0) ~= 0 then return false end
  if budget.announced and budget.announced ~= '' then
    -- @cold ledger/announced_settled
    return announced_settled(budget, thresholds, now)
  end
  local least = (1.000001 - thresholds[1] / 1e6) * budget.allocated
  return least >= 0 and budget.remaining + 0 > least and budget.before_remaining + 0 > least
end
