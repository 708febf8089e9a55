#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/due_events.rs.
Emits events about the store, unless any dispatcher has emitted some of this kind within the pause.

KEYS[1]  write  store_reports  hash    storereports
KEYS[2]  write  event_log      stream  events:<system>:<day>
KEYS[3]  write  outbox         stream  outbox
KEYS[4]  write  days           zset    days

ARGV[1]    day           yyyymmdd
ARGV[2]    day_start_ms  int64
ARGV[3]    system        text
ARGV[4]    kind          text        outage or latency.
ARGV[5]    pause_ms      int64
ARGV[6]    context       text        The request cause, lines of name and value.
ARGV[7..]  events        to the end  Type, message, severity and details of each.

Replies, the first that applies:
  clock now_ms | flushed count
Writes:
  On flushed: the events, and when they were emitted.
]]
local store_reports, event_log, outbox, days = unpack(KEYS)
local day, day_start_ms, system, kind, pause_ms, context = unpack(ARGV, 1, 6)
local events_from = 7
-- End of the signature.
-- @include base/time, log/events
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local last_ms = tonumber(redis.call('HGET', store_reports, kind) or nil)
-- A time in the future dates from before the clock was set back.
if last_ms and last_ms <= now and now - last_ms < tonumber(pause_ms) then return {'flushed', 0} end
redis.call('ZCARD', days)
for _, log in ipairs({event_log, outbox}) do redis.call('XLEN', log) end

-- Effects: none can fail.
redis.call('HSET', store_reports, kind, now)
local events = events_new(event_log, outbox, system, day, now, context)
for at = events_from, #ARGV, 4 do
  event_append(events, ARGV[at], nil, {'data.component', 'store', 'data.message', ARGV[at + 1], 'data.severity',
    ARGV[at + 2], 'data.details', ARGV[at + 3]})
end
events_point(events)
redis.call('ZADD', days, 'NX', now, system .. ':' .. day)
return {'flushed', events.count}
