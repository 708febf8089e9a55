--[[
short_lived: counts the bytes of keys with a TTL of a day, which no index lists, by the hour, so that it is known what the
data of a tenant takes. What cannot be counted is left out; no request fails for it.
]]
local SHORT_LIVED_HOURS = 25

-- Counts a key that was written. short_lived: the counts of its tenant.
local function short_lived_count(short_lived, key, now)
  local bytes, hour = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', '0'), math.floor(now / 3600000)
  if type(bytes) ~= 'number' or redis.pcall('HINCRBY', short_lived, hour, bytes) ~= bytes then return end
  -- The first of the hour.
  redis.call('PEXPIRE', short_lived, SHORT_LIVED_HOURS * 3600000)
  for _, field in ipairs(redis.call('HKEYS', short_lived)) do
    if (tonumber(field) or 0) + SHORT_LIVED_HOURS <= hour then redis.call('HDEL', short_lived, field) end
  end
end
