--[[ windows_charge: counts a charge in the windows of limits. ]]
-- @include base/int64, ledger/windows

-- Moves the limits in memory.
local function windows_charge(budgets, amount, now)
  for _, budget in ipairs(budgets) do
    if budget.limits then
      local windows = windows_read(budget, now)
      for _, window in ipairs(windows) do window.used = int64_add(window.used, amount) or INT64_MAX end
      budget.limits, budget.has_counted = windows_text(windows), true
    end
  end
end
