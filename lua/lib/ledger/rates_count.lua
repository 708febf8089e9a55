--[[ rates_count: counts one more reservation or commit. ]]

-- counts: as rates_read found them; i: which of them.
local function rates_count(counts, i)
  if not counts.present then
    redis.call('UNLINK', counts.key)
    redis.call('HSET', counts.key, 'minute_ms', counts.minute_ms)
    redis.call('PEXPIRE', counts.key, 2 * (counts.until_ms - counts.minute_ms))
  end
  redis.call('HSET', counts.key, counts.fields[i], counts[i] + 1)
end
