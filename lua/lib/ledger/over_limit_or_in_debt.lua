--[[
over_limit_or_in_debt: where a partition's ledgers that owe something, or are over their limit, are found. One index has both: an entry
`debt …` by what is owed, an entry `over …` by what is below zero by that and one more, so that either kind has the highest
debt at its own end. Scores are doubles and rank only; the figures are the ledger's.
]]

-- Writes where a ledger stands with this debt. name: `<tenant> <UNIT> <scope>`.
local function over_limit_or_in_debt_write(over_limit_or_in_debt, name, debt, over)
  local owed = tonumber(debt)
  if owed > 0 then
    redis.call('ZADD', over_limit_or_in_debt, owed, 'debt ' .. name)
  else
    redis.call('ZREM', over_limit_or_in_debt, 'debt ' .. name)
  end
  if over then
    redis.call('ZADD', over_limit_or_in_debt, -owed - 1, 'over ' .. name)
  else
    redis.call('ZREM', over_limit_or_in_debt, 'over ' .. name)
  end
end
