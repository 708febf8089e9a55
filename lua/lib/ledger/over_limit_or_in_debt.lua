--[[
over_limit_or_in_debt: indexes a partition's ledgers that have debt or are over their limit. One index has both:
an entry `debt …` by debt, an entry `over …` by -debt - 1, so that either kind has the highest debt at its own end.
Scores are doubles and only rank; the figures are the ledger's.
]]

-- Writes the entries of a ledger. name: `<tenant> <UNIT> <scope>`.
local function over_limit_or_in_debt_write(index, name, debt, over)
  local owed, scores, gone = tonumber(debt), {}, {}
  local function place(entry, score)
    if score then
      scores[#scores + 1], scores[#scores + 2] = score, entry
    else
      gone[#gone + 1] = entry
    end
  end
  place('debt ' .. name, owed > 0 and owed)
  place('over ' .. name, over and -owed - 1)
  if #scores > 0 then redis.call('ZADD', index, unpack(scores)) end
  -- Last, and all at once: the index is gone with its last entry.
  if #gone > 0 then redis.call('ZREM', index, unpack(gone)) end
end
