#!lua flags=allow-oom
--[[
retire: ends a look of retention at one day of a tenant. Logs whose time is over go; a day of which nothing is left
leaves the registry; else the registry learns when to look again.
KEYS[1] reservations  zset  of the day    KEYS[4] audit_log  stream  of the day    KEYS[6] days   zset
KEYS[2] posts         zset  of the day    KEYS[5] chain      hash                  KEYS[7] lease  hash
KEYS[3] event_log     stream of the day
ARGV[1] member of days: tenant:yyyymmdd    ARGV[4] drop_events 1|0    ARGV[6..9] when to look again while there still
ARGV[2] day_start_ms                       ARGV[5] drop_audit  1|0               are reservations, posts, events, audit
ARGV[3] fencing_token                                                            entries; ms
Reply: fenced | retired events audit | kept events audit next_ms; events and audit: entries dropped
The chain keeps the sequence number of the last audit entry that went, from which on it can be checked.
]]
-- @include time
local reservations, posts, event_log, audit_log, chain, days, lease = unpack(KEYS)
local member, day_start_ms, token, drop_events, drop_audit = unpack(ARGV, 1, 5)
if redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local now = now_ms()

-- Reads.
local logs, sequence = {{event_log, drop_events}, {audit_log, drop_audit}}, nil
for i, log in ipairs(logs) do
  log.dropped = 0
  if log[2] == '1' and redis.call('EXISTS', log[1]) == 1 then log.dropped = redis.call('XLEN', log[1]) end
  if i == 2 and log.dropped > 0 then
    local fields = redis.call('XREVRANGE', audit_log, '+', '-', 'COUNT', 1)[1][2]
    for at = 1, #fields, 2 do
      if fields[at] == 'sequence' then sequence = tonumber(fields[at + 1]) end
    end
    local anchor = tonumber(redis.call('HGET', chain, 'anchor_sequence') or '0')
    if sequence and anchor and anchor > sequence then sequence = nil end
  end
end

-- Effects: none can fail.
if sequence then redis.call('HSET', chain, 'anchor_sequence', sequence) end
for _, log in ipairs(logs) do
  if log[2] == '1' then redis.call('UNLINK', log[1]) end
end
local next_ms = nil
for i, key in ipairs({reservations, posts, event_log, audit_log}) do
  local again = tonumber(ARGV[5 + i])
  if redis.call('EXISTS', key) == 1 and (not next_ms or again < next_ms) then next_ms = again end
end
-- The tenant's record says that the present day is registered, so that row stays until the day is well over.
local over_ms = day_start_ms + 2 * DAY_MS
if not next_ms and now >= over_ms then
  redis.call('ZREM', days, member)
  return {'retired', logs[1].dropped, logs[2].dropped}
end
redis.call('ZADD', days, next_ms or over_ms, member)
return {'kept', logs[1].dropped, logs[2].dropped, next_ms or over_ms}
