--[[
turns: finds the ledgers that must turn before a request may use them. `turns_at_ms` says from when on; 0 stands for a ledger
that is not in the index of those that turn by themselves: it is due whenever it is used.
]]

-- Returns the reply with their records; nil if there is none. A request whose call is repeated judges by until_ms, the clock of its
-- first call.
local function turns_due(budgets, now, until_ms)
  local before, reply = until_ms ~= '' and math.min(now, tonumber(until_ms)) or now, {'turn_first', now}
  for _, budget in ipairs(budgets) do
    local at_ms = tonumber(budget.turns_at_ms)
    if at_ms and at_ms <= before and budget.status ~= 'CLOSED' then
      reply[#reply + 1] = redis.call('HGETALL', budget.key)
    end
  end
  return #reply > 2 and reply or nil
end
