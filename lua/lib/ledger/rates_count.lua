--[[ rates_count: counts a reservation, a commit, or bytes. ]]

-- counts: of rates_read; i: the place of the count; by: the increment.
local function rates_count(counts, i, by)
  if not counts.present then
    redis.call('UNLINK', counts.key)
    redis.call('HSET', counts.key, 'minute_ms', counts.minute_ms)
    redis.call('PEXPIRE', counts.key, 2 * (counts.until_ms - counts.minute_ms))
    counts.present = true
  end
  redis.call('HSET', counts.key, counts.fields[i], counts[i] + by)
end
