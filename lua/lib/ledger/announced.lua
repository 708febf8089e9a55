--[[
announced: the thresholds that a ledger has emitted, so that holds that come and go around a threshold do not flood. Its field
`announced` is '<millionths> <at_ms> <exhausted_at_ms>': the highest threshold whose rise was announced, when, and when
the ledger was announced as exhausted. Each is 0 if there is none; the field is empty or absent if all are.
]]

local ANNOUNCED_BAND = 50000 -- in millionths: a threshold falls, and rises again, only from that far below it
local ANNOUNCED_MS = 10000 -- how old an event must be before the threshold can fall

-- Returns the threshold, at_ms and exhausted_at_ms.
local function announced_read(budget)
  local threshold, at_ms, exhausted_at_ms = (budget.announced or ''):match('^(%d+) (%d+) (%d+)$')
  return tonumber(threshold) or 0, tonumber(at_ms) or 0, tonumber(exhausted_at_ms) or 0
end

-- A time in the future, left by a clock that went back, counts as old.
local function announced_is_old(at_ms, now) return at_ms > now or now - at_ms >= ANNOUNCED_MS end
