--[[
bulk: keeps the outcomes of the rows of a bulk action. The script that changes a row keeps its outcome, in the row's
own partition, so that resuming an interrupted action does no row twice. An outcome is one text: `succeeded`, `failed
CODE message`, `skipped REASON`; of a tenant whose close has not ended `closing`, or `closing_again` if it was closed
before.
]]

local BULK_ROWS_MS = 172800000 -- twice as long as an action is resumed

-- fields: ids and outcomes. due: the index of what retention deletes, since a TTL would end with a jump of the clock, and a
-- row would be done twice.
local function bulk_rows_keep(rows, fields, due, now)
  if #fields == 0 then return end
  redis.call('HSET', rows, unpack(fields))
  redis.call('ZADD', due, now + BULK_ROWS_MS, rows)
end
