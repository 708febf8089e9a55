--[[ increases: the temporary increases of a ledger, a line each: id, amount, end in milliseconds, and all of it in JSON. ]]
-- @include base/int64

-- Returns the increases of a ledger that have not ended.
local function increases_read(key)
  local increases = {}
  for line in (redis.call('HGET', key, 'increases') or ''):gmatch('[^\n]+') do
    local id, amount, end_ms = line:match('^(%S+) (%d+) (%d+) ')
    local increase = {id = id, amount = int64(amount), end_ms = end_ms, line = line}
    if not increase.amount then error('an increase of ' .. key .. ' cannot be read') end
    increases[#increases + 1] = increase
  end
  return increases
end

-- Returns by how much they increase what is allocated. A sum beyond 64 bits becomes the highest integer.
local function increases_sum(increases)
  local sum = 0
  for _, increase in ipairs(increases) do sum = int64_add(sum, increase.amount) or INT64_MAX end
  return sum
end

local function increases_text(increases)
  local lines = {}
  for at, increase in ipairs(increases) do lines[at] = increase.line end
  return table.concat(lines, '\n')
end

-- Returns names and values of the event of one.
local function increase_facts(increase, ledger_id, unit)
  return {'data.ledger_id', ledger_id, 'data.unit', unit, 'data.increase_id', increase.id, 'data.amount', increase.amount,
    'data.until_ms', increase.end_ms}
end
