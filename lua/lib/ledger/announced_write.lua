--[[ announced_write: writes the emitted thresholds of a ledger, if they have changed. ]]

local function announced_store(budget, text) redis.call('HSET', budget.key, 'announced', text) end

local function announced_write(budget, threshold, at_ms, exhausted_at_ms)
  local text = ''
  if threshold ~= 0 or exhausted_at_ms ~= 0 then
    text = ('%d %d %d'):format(threshold, threshold ~= 0 and at_ms or 0, exhausted_at_ms)
  end
  if text ~= (budget.announced or '') then announced_store(budget, text) end
end
