--[[ windows_refund: takes a charge out of the windows that have counted it. ]]
-- @include base/int64, ledger/windows

-- Moves the limits in memory. charged_ms: when it was charged.
local function windows_refund(budgets, amount, charged_ms, now)
  for _, budget in ipairs(budgets) do
    local windows = budget.limits and windows_read(budget, now) or {}
    for _, window in ipairs(windows) do
      if tonumber(window.from_ms) <= charged_ms then
        window.used = int64_lt(amount, window.used) and int64_sub(window.used, amount) or 0
      end
    end
    if budget.limits then budget.limits, budget.has_counted = windows_text(windows), true end
  end
end
