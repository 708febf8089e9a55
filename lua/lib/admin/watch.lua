--[[
watch: keeps the utilization thresholds, in millionths, that subscriptions watch besides the usual ones. Those of a
tenant's own active subscriptions are in a hash; those of the operator's subscriptions are copied to each partition. The union of
all is in the tenant's record, which every operation reads anyway.
]]
-- @include base/counter, ledger/thresholds

-- Returns the union, ascending, blanks between; '' for none. Takes tables of texts of numbers.
local function watch_union(...)
  local seen, union = {}, {}
  for _, texts in ipairs({...}) do
    for _, text in ipairs(texts) do
      for word in text:gmatch('%d+') do
        if not seen[word] then seen[word], union[#union + 1] = true, tonumber(word) end
      end
    end
  end
  table.sort(union)
  return table.concat(union, ' ')
end

-- Adds thresholds, blanks between, to a set with its count.
local function watch_add(set, millionths)
  for word in millionths:gmatch('%d+') do
    if not set[word] then set[word], set.count = true, set.count + 1 end
  end
end

-- Returns how many different thresholds the owner's subscriptions would watch if one watched `millionths`, where that is
-- more than max and more than now.
local function watch_excess(watch, subscription_id, millionths, max)
  local now, after, stored = {count = 0}, {count = 0}, redis.call('HGETALL', watch)
  watch_add(after, millionths)
  for i = 1, #stored, 2 do
    watch_add(now, stored[i + 1])
    if stored[i] ~= subscription_id then watch_add(after, stored[i + 1]) end
  end
  if after.count > tonumber(max) and after.count > now.count then return after.count end
end

-- Writes what applies to a tenant that has a record; nothing where only the usual ones apply.
local function watch_apply(tenant_key, watch, copied)
  local own = redis.call('HVALS', watch)
  if #own == 0 and copied == '' then return redis.call('HDEL', tenant_key, 'thresholds') end
  redis.call('HSET', tenant_key, 'thresholds', watch_union({table.concat(THRESHOLDS_DEFAULT, ' '), copied}, own))
end

-- Called before the effects: raises where watch_write would.
local function watch_check(watch, thresholds)
  redis.call('HLEN', watch)
  counter_check(thresholds, redis.call('HGET', thresholds, 'source_version') or '0')
end

-- Writes what a subscription watches, '' for nothing. tenant_key is nil for the operator's own: then it returns the version
-- and the union that every partition must copy, if they have changed.
local function watch_write(watch, thresholds, tenant_key, subscription_id, millionths)
  if millionths == '' then
    redis.call('HDEL', watch, subscription_id)
  else
    redis.call('HSET', watch, subscription_id, millionths)
  end
  if tenant_key then return watch_apply(tenant_key, watch, redis.call('HGET', thresholds, 'union') or '') end
  local union = watch_union(redis.call('HVALS', watch))
  if union == (redis.call('HGET', thresholds, 'source_union') or '') then return nil end
  redis.call('HSET', thresholds, 'source_union', union)
  return redis.call('HINCRBY', thresholds, 'source_version', 1), union
end
