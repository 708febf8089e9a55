--[[
windows: the limits of a ledger over windows of time. First the least room of all and the first end of a window; then a line each: limit,
used, start, end, when counting began, length, and what identifies it, `every` first. A window with a length ends and begins here; one
with - follows a calendar, and turns with its ledger.
]]
-- @include base/int64

-- Returns the limits in the windows that contain now. A window that begins later stays.
local function windows_read(budget, now)
  local windows = {}
  for line in budget.limits:gmatch('\n([^\n]+)') do
    local limit, used, start_ms, end_ms, from_ms, length, name =
      line:match('^(%d+) (%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%S+) (%S.*)$')
    local window = {limit = int64(limit), used = int64(used), start_ms = start_ms, end_ms = end_ms, from_ms = from_ms,
      length = length, name = name}
    if not (name and window.limit and window.used) then error('a limit of ' .. budget.key .. ' cannot be read') end
    if length ~= '-' and tonumber(end_ms) <= now then
      local start = now - (now - end_ms) % length
      window.used, window.start_ms, window.end_ms = 0, int64_text(start), int64_text(start + length)
      window.from_ms = window.start_ms
    end
    windows[#windows + 1] = window
  end
  if #windows == 0 and budget.limits ~= '' then error('the limits of ' .. budget.key .. ' cannot be read') end
  return windows
end

-- Returns the first window that has no room for an amount beside what is held, for a reply: every, limit, used, end.
local function windows_full(budget, amount, now)
  for _, window in ipairs(windows_read(budget, now)) do
    local room = int64_sub(int64_sub(window.limit, window.used), budget.reserved)
    if not room or int64_lt(room, amount) then
      return table.concat({window.name:match('^%S+'), int64_text(window.limit), int64_text(window.used), window.end_ms}, ' ')
    end
  end
  return nil
end

local function windows_text(windows)
  if #windows == 0 then return '' end
  local room, end_ms, lines = INT64_MAX, math.huge, {''}
  for at, window in ipairs(windows) do
    local left = int64_sub(window.limit, window.used)
    if int64_lt(left, room) then room = left end
    end_ms = math.min(end_ms, tonumber(window.end_ms))
    lines[at + 1] = table.concat({int64_text(window.limit), int64_text(window.used), window.start_ms, window.end_ms,
      window.from_ms, window.length, window.name}, ' ')
  end
  lines[1] = int64_text(room) .. ' ' .. int64_text(end_ms)
  return table.concat(lines, '\n')
end
