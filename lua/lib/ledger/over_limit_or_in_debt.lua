--[[
over_limit_or_in_debt: indexes a partition's ledgers that have debt or are over their limit. One index has both:
an entry `debt …` by debt, an entry `over …` by -debt - 1, so that either kind has the highest debt at its own end.
Scores are doubles and only rank; the figures are the ledger's.
]]

-- Writes the entries of a ledger. name: `<tenant> <UNIT> <scope>`.
local function over_limit_or_in_debt_write(index, name, debt, over)
  local owed = tonumber(debt)
  if owed > 0 then
    redis.call('ZADD', index, owed, 'debt ' .. name)
  else
    redis.call('ZREM', index, 'debt ' .. name)
  end
  if over then
    redis.call('ZADD', index, -owed - 1, 'over ' .. name)
  else
    redis.call('ZREM', index, 'over ' .. name)
  end
end
