--[[ bytes_count: counts the bytes of a commit or an extension, and marks the tenant when they exceed the limit. ]]
-- @include ledger/rates_count

-- counts: of rates_read; i: the place of the bytes. stored_bytes: those of the request, and the limit per minute.
local function bytes_count(tenant_key, counts, i, stored_bytes)
  local bytes, max_bytes = stored_bytes:match('^(%d+) (%d+)$')
  rates_count(counts, i, bytes)
  local present = counts[i] + bytes
  if present >= tonumber(max_bytes) then
    redis.call('HSET', tenant_key, 'bytes_full', counts.until_ms .. ' ' .. max_bytes .. ' ' .. present)
  end
end
