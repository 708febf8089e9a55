--[[ windows_replaced: replaces the limits of a ledger. ]]
-- @include ledger/windows

-- Returns the text of the new limits, and whether they differ. A limit with the windows of one that is replaced
-- continues its count. wanted: the new limits, of which nothing is used.
local function windows_replaced(budget, wanted, now)
  local before = budget.limits and windows_read(budget, now) or {}
  local present, known, windows = windows_text(before), {}, windows_read({key = budget.key, limits = wanted}, now)
  for _, window in ipairs(before) do known[window.name] = window end
  for _, window in ipairs(windows) do
    local old = known[window.name]
    if old then
      window.used, window.start_ms, window.end_ms, window.from_ms = old.used, old.start_ms, old.end_ms, old.from_ms
    end
  end
  local text = windows_text(windows)
  return text, text ~= present
end

-- Whether a window of them follows a calendar, so that the ledger turns.
local function windows_turn(text)
  return text:find('\n%S+ %S+ %S+ %S+ %S+ %- ') ~= nil
end
