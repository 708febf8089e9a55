--[[
templates: the budgets that policies would make for a request where its scopes have none. They are judged as ledgers in which nothing has
moved, and are created only once something is to be held or charged.
]]
-- @include base/int64, ledger/budgets

-- Adds them to the ledgers of a request, root first; in `create_first` their depths. templates: a line each, of depth, allocated, overdraft
-- limit, overage policy, whether it observes, and its limits, with | for their line ends.
local function templates_apply(budgets, templates)
  local exists, depths = {}, {}
  for _, budget in ipairs(budgets) do exists[budget.depth] = true end
  for depth, allocated, limit, overage, observes, limits in templates:gmatch('(%d) (%d+) (%d+) (%S+) (%d) ([^\n]*)\n') do
    if not exists[depth] then
      depths[#depths + 1] = depth
      limits = limits ~= '' and limits:gsub('|', '\n') or nil
      local budget = {
        is_virtual = true, depth = depth, status = 'ACTIVE', remaining = int64(allocated), reserved = int64('0'), spent = '0',
        allocated = allocated, debt = '0', limit = limit, over = false, overage = overage, limits = limits,
        observes = observes == '1' or nil,
      }
      budgets[#budgets + 1] = budget
      budgets.terms = budgets.terms or budget.limits or budget.observes
    end
  end
  if #depths == 0 then return end
  table.sort(budgets, function(one, other) return one.depth < other.depth end)
  budgets.create_first = table.concat(depths, ' ')
end
