--[[
traffic: counts recent outcomes of a tenant's requests and reservations, for shares over sliding windows. A hash has a
ring of 60 buckets for each width of them; a window is taken from the narrowest buckets that span it. So a window is exact
to a bucket, which is at most a tenth of it or 5 seconds.
]]

local TRAFFIC_WIDTHS, TRAFFIC_BUCKETS = {5, 30, 180, 1440}, 60
-- How often the counts of a tenant in the index are evaluated.
local TRAFFIC_PERIOD_MS = 10000
-- Places of the counts in a bucket.
local TRAFFIC_DECIDED, TRAFFIC_DENIED, TRAFFIC_ENDED, TRAFFIC_EXPIRED, TRAFFIC_TRIED, TRAFFIC_REFUSED = 1, 2, 3, 4, 5, 6

-- Returns the width of the buckets that a window in seconds is taken from.
local function traffic_width(window)
  for _, width in ipairs(TRAFFIC_WIDTHS) do
    if window <= width * TRAFFIC_BUCKETS then return width end
  end
  return TRAFFIC_WIDTHS[#TRAFFIC_WIDTHS]
end

-- Calls each(metric, above, window) with every limit of a share that is watched besides the usual ones. watched: words.
local function traffic_limits(watched, each)
  for metric, above, window in (watched or ''):gmatch('([%a_]+_rate):([^:%s]+):(%d+)') do
    if metric ~= 'burn_rate' then each(metric, above, tonumber(window)) end
  end
end

-- Returns the present buckets of a tenant, as they are stored.
local function traffic_read(key, now, watched)
  local counts, seen = {key = key, buckets = {}, fields = {}}, {}
  local function add_width(width)
    if seen[width] then return end
    seen[width] = true
    local index = math.floor(now / 1000 / width)
    counts.fields[#counts.fields + 1] = width .. '.' .. index % TRAFFIC_BUCKETS
    counts.buckets[#counts.buckets + 1] = {index = index}
    counts.span_ms = math.max(counts.span_ms or 0, width * TRAFFIC_BUCKETS * 1000)
  end
  add_width(TRAFFIC_WIDTHS[1])
  traffic_limits(watched, function(_, _, window) add_width(traffic_width(window)) end)
  for i, stored in ipairs(redis.call('HMGET', key, unpack(counts.fields))) do
    counts.buckets[i].stored = stored
  end
  return counts
end

-- Adds counts. due: the index of tenants to evaluate.
local function traffic_add(counts, due, tenant, now, added)
  local pairs_of_fields = {}
  for i, bucket in ipairs(counts.buckets) do
    local totals, place = {bucket.index, 0, 0, 0, 0, 0, 0}, 1
    if bucket.stored and tonumber(bucket.stored:match('^%d+')) == bucket.index then
      for word in bucket.stored:gmatch('%d+') do totals[place], place = tonumber(word), place + 1 end
    end
    for what = 1, 6 do totals[what + 1] = ('%.0f'):format(totals[what + 1] + (added[what] or 0)) end
    totals[1] = ('%.0f'):format(bucket.index)
    pairs_of_fields[#pairs_of_fields + 1] = counts.fields[i]
    pairs_of_fields[#pairs_of_fields + 1] = table.concat(totals, ' ')
  end
  redis.call('HSET', counts.key, unpack(pairs_of_fields))
  redis.call('PEXPIRE', counts.key, 2 * counts.span_ms)
  local unusual = (added[TRAFFIC_DENIED] or 0) + (added[TRAFFIC_EXPIRED] or 0) + (added[TRAFFIC_REFUSED] or 0)
  if unusual > 0 then redis.call('ZADD', due, 'LT', now - now % TRAFFIC_PERIOD_MS + TRAFFIC_PERIOD_MS, tenant) end
end
