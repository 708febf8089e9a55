--[[
audit_failures: bounds the audit entries of requests that a tenant's keys may not make, and of unknown callers, since
refusals cost them nothing: above a rate per minute they are only counted, exactly, and one entry for the minute says
how many. The counter keeps the minute, its count, and the entry of the first request beyond the rate.
]]
-- @include base/slot

-- Called before the effects: raises if a key that the others write has another type, or cannot be written anew.
local function audit_failures_check(counter, index)
  slot_check(counter)
  redis.call('HLEN', counter)
  redis.call('ZCARD', index)
end

-- Appends the rollup of a past minute, if it has one; returns how many entries it appended.
local function audit_failures_flush(counter, index, member, audit_append, now)
  local kept, entry, suppressed = redis.call('HGETALL', counter), {}, nil
  for i = 1, #kept, 2 do
    if kept[i] == 'suppressed' then suppressed = kept[i + 1]
    elseif kept[i] ~= 'minute_ms' and kept[i] ~= 'count' then
      entry[#entry + 1], entry[#entry + 2] = kept[i], kept[i + 1]
    end
  end
  redis.call('DEL', counter)
  redis.call('ZREM', index, member)
  if not suppressed then return 0 end
  entry[#entry + 1], entry[#entry + 2] = 'metadata.count', suppressed
  audit_append(now, entry)
  return 1
end

-- Appends an entry, or counts it.
local function audit_failure_append(counter, index, member, per_minute, audit_append, now, entry)
  local minute = now - now % 60000
  if tonumber(redis.call('HGET', counter, 'minute_ms') or 0) ~= minute then
    audit_failures_flush(counter, index, member, audit_append, now)
    redis.call('HSET', counter, 'minute_ms', minute)
  end
  if redis.call('HINCRBY', counter, 'count', 1) <= tonumber(per_minute) then
    return audit_append(now, entry)
  end
  if redis.call('HINCRBY', counter, 'suppressed', 1) == 1 then
    redis.call('HSET', counter, unpack(entry))
    redis.call('ZADD', index, minute + 60000, member)
  end
end
