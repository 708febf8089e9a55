#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/retention.rs.
Ends a pass of retention over one day of a tenant. Logs whose time is over go; a day of which nothing is left leaves the
registry; else the registry gets the time of the next look.

events and audit: entries removed. drop_audit 1: if the log is the oldest of its chain; 2: also if older entries are
missing, for they will not come any more. A log that is not sealed stays in any case, and is looked at again in an hour.
The chain keeps number and hash of the last entry that went, from which on it can be checked, and how many went in all.

KEYS[1]  read   lease         hash    lease
KEYS[2]  read   reservations  zset    rsvs:<tenant>:<of_day>
KEYS[3]  read   usage_events  zset    usage_events:<tenant>:<of_day>
KEYS[4]  read   usage         hash    usage:<tenant>:<of_day>
KEYS[5]  write  event_log     stream  events:<tenant>:<of_day>
KEYS[6]  write  audit_log     stream  audit:<tenant>:<of_day>
KEYS[7]  write  seals         hash    seals:<tenant>:<of_day>
KEYS[8]  write  chain         hash    chain:<tenant>
KEYS[9]  write  days          zset    days

ARGV[1]   member                 text    Of days.
ARGV[2]   of_day_start_ms        int64
ARGV[3]   fencing_token          int64
ARGV[4]   drop_events            1 or 0
ARGV[5]   drop_audit             int64   0, 1 or 2.
ARGV[6]   reservations_again_ms  int64   When to look again while there are reservations.
ARGV[7]   usage_events_again_ms  int64
ARGV[8]   usage_again_ms         int64
ARGV[9]   events_again_ms        int64
ARGV[10]  audit_again_ms         int64

Replies, the first that applies:
  fenced | retired events audit | kept events audit next_ms
Writes:
  The logs that go, the chain, the registry.
]]
local lease, reservations, usage_events, usage, event_log, audit_log, seals, chain, days = unpack(KEYS)
local member, of_day_start_ms, fencing_token, drop_events, drop_audit, reservations_again_ms, usage_events_again_ms,
  usage_again_ms, events_again_ms, audit_again_ms = unpack(ARGV)
-- End of the signature.
-- @include base/time, base/slot, log/chain
local HOUR_MS = 3600000
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local now = now_ms()

-- The anchor of the chain once this day's log is deleted; nil while the log must stay.
local function anchor_after(entries)
  local first = sequence_of(redis.call('XRANGE', audit_log, '-', '+', 'COUNT', 1)[1])
  local last = sequence_of(redis.call('XREVRANGE', audit_log, '+', '-', 'COUNT', 1)[1])
  local sealed, hash = chain_last_seal(seals)
  if not (first and last and sealed == last) then return nil end
  local anchor, dropped = chain_anchor(chain)
  if first > anchor + 1 and drop_audit == '1' then return nil end
  local anchored = {'anchor_dropped', dropped + entries}
  if last > anchor then
    anchored[3], anchored[4], anchored[5], anchored[6] = 'anchor_sequence', last, 'anchor_hash', hash
  end
  return anchored
end

-- Reads. The registry is written without having been read: one of another type raises here.
redis.call('ZCARD', days)
slot_check(days)
local events, audit, anchored, sealed_again_ms = 0, 0, nil, tonumber(audit_again_ms)
if drop_events == '1' and redis.call('EXISTS', event_log) == 1 then events = redis.call('XLEN', event_log) end
if drop_audit ~= '0' and redis.call('EXISTS', audit_log) == 1 then
  audit = redis.call('XLEN', audit_log)
  anchored = audit > 0 and anchor_after(audit)
  if audit > 0 and not anchored then
    audit, drop_audit, sealed_again_ms = 0, '0', now + HOUR_MS
  end
end

-- Effects: none can fail.
if anchored then redis.call('HSET', chain, unpack(anchored)) end
if drop_events == '1' then redis.call('UNLINK', event_log) end
if drop_audit ~= '0' then redis.call('UNLINK', audit_log, seals) end
local next_ms = nil
for _, kept in ipairs({{reservations, reservations_again_ms}, {usage_events, usage_events_again_ms},
  {usage, usage_again_ms}, {event_log, events_again_ms}, {audit_log, sealed_again_ms}}) do
  local again = tonumber(kept[2])
  if redis.call('EXISTS', kept[1]) == 1 and (not next_ms or again < next_ms) then next_ms = again end
end
-- The tenant's record says that the present day is registered, so that row stays until the day is well over.
local over_ms = of_day_start_ms + 2 * DAY_MS
if not next_ms and now >= over_ms then
  redis.call('ZREM', days, member)
  return {'retired', events, audit}
end
redis.call('ZADD', days, next_ms or over_ms, member)
return {'kept', events, audit, next_ms or over_ms}
