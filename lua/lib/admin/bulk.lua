--[[
bulk: the rows of a bulk action. What became of a row is kept by the script that changes it, in the row's own partition, so
that whoever goes on with an action that was interrupted does no row twice. An outcome is one text: `succeeded`,
`failed CODE message`, `skipped REASON`; of a tenant whose close goes on `closing`, or `closing_again` if it was closed.
]]
local BULK_ROWS_MS = 172800000 -- twice as long as anybody goes on with an action

-- fields: ids and outcomes.
local function bulk_rows_keep(rows, fields)
  if #fields == 0 then return end
  redis.call('HSET', rows, unpack(fields))
  redis.call('PEXPIRE', rows, BULK_ROWS_MS)
end
