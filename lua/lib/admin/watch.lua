--[[
watch: keeps what subscriptions watch besides the usual: utilization thresholds, in millionths, and limits of rates, as
`<metric>:<limit>:<window>`. What a tenant's own active subscriptions watch is in a hash; what the operator's do is copied to
each partition. The union of all is in the tenant's record, which every operation reads anyway.
]]
-- @include base/counter, base/slot, ledger/thresholds

-- Burn rates are counted in buckets of a tenth of each window.
local WATCH_BURN_WINDOWS = 4

-- Returns the union: thresholds, ascending, then limits; blanks between, '' for none. Takes tables of texts of words.
local function watch_union(...)
  local seen, thresholds, limits = {}, {}, {}
  for _, texts in ipairs({...}) do
    for _, text in ipairs(texts) do
      for word in text:gmatch('%S+') do
        local number = not seen[word] and tonumber(word)
        if number then thresholds[#thresholds + 1] = number
        elseif not seen[word] then limits[#limits + 1] = word end
        seen[word] = true
      end
    end
  end
  table.sort(thresholds)
  table.sort(limits)
  for _, word in ipairs(limits) do thresholds[#thresholds + 1] = word end
  return table.concat(thresholds, ' ')
end

-- Adds watched words, blanks between, to a set with its count and that of the windows of burn rates.
local function watch_add(set, words)
  for word in words:gmatch('%S+') do
    if not set[word] then set[word], set.count = true, set.count + 1 end
    local window = word:match('^burn_rate:[^:]+:(%d+)')
    if window and not set['window ' .. window] then set['window ' .. window], set.windows = true, set.windows + 1 end
  end
end

-- If the owner's subscriptions would exceed a limit by watching `words`, and watch more than now: returns what is limited, the
-- limit, and how many they would watch.
local function watch_excess(watch, subscription_id, words, max)
  local now, after, stored = {count = 0, windows = 0}, {count = 0, windows = 0}, redis.call('HGETALL', watch)
  watch_add(after, words)
  for i = 1, #stored, 2 do
    watch_add(now, stored[i + 1])
    if stored[i] ~= subscription_id then watch_add(after, stored[i + 1]) end
  end
  if after.count > tonumber(max) and after.count > now.count then return 'thresholds', max, after.count end
  if after.windows > WATCH_BURN_WINDOWS and after.windows > now.windows then
    return 'burn_windows', WATCH_BURN_WINDOWS, after.windows
  end
end

-- Returns the fields of a tenant's record for a union, and those that it must not have; nothing where only the usual applies.
local function watch_fields(union)
  local thresholds, limits = union:match('^([%d ]*)(.*)$')
  local fields, absent = {}, {}
  if thresholds:find('%d') then
    fields[1], fields[2] = 'thresholds', watch_union({table.concat(THRESHOLDS_DEFAULT, ' '), thresholds})
  else
    absent[1] = 'thresholds'
  end
  if limits ~= '' then
    fields[#fields + 1], fields[#fields + 2] = 'watched_rates', limits
  else
    absent[#absent + 1] = 'watched_rates'
  end
  return fields, absent
end

-- Writes the thresholds of a tenant that has a record.
local function watch_apply(tenant_key, watch, copied)
  local fields, absent = watch_fields(watch_union({copied}, redis.call('HVALS', watch)))
  if #fields > 0 then redis.call('HSET', tenant_key, unpack(fields)) end
  if #absent > 0 then redis.call('HDEL', tenant_key, unpack(absent)) end
end

-- Called before the effects: raises where watch_write would.
local function watch_check(watch, thresholds)
  slot_check(watch)
  redis.call('HLEN', watch)
  counter_check(thresholds, redis.call('HGET', thresholds, 'source_version') or '0')
end

-- Writes the watch of a subscription, '' for none. tenant_key is nil for the operator's own: then it returns the version
-- and the union that every partition must copy, if they have changed.
local function watch_write(watch, thresholds, tenant_key, subscription_id, words)
  if words == '' then
    redis.call('HDEL', watch, subscription_id)
  else
    redis.call('HSET', watch, subscription_id, words)
  end
  if tenant_key then return watch_apply(tenant_key, watch, redis.call('HGET', thresholds, 'union') or '') end
  local union = watch_union(redis.call('HVALS', watch))
  if union == (redis.call('HGET', thresholds, 'source_union') or '') then return nil end
  redis.call('HSET', thresholds, 'source_union', union)
  return redis.call('HINCRBY', thresholds, 'source_version', 1), union
end
