#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/lease.rs.
Records that a dispatcher is alive, and returns all that are, in the order of their times. A silent dispatcher drops out
by itself.

KEYS[1]  write  dispatchers  zset  {dir}:dispatchers

ARGV[1]  dispatcher   text
ARGV[2]  duration_ms  int64
ARGV[3]  action       text   stay or leave.

Replies, the first that applies:
  alive now_ms dispatchers
Writes:
  The list of dispatchers.
]]
local dispatchers = KEYS[1]
local dispatcher, duration_ms, action = unpack(ARGV)
-- End of the signature.
-- @include base/time
local now = now_ms()

-- Effects: none can fail.
if action == 'leave' then
  redis.call('ZADD', dispatchers, now, dispatcher)
else
  redis.call('ZADD', dispatchers, now + duration_ms, dispatcher)
  -- A time further ahead than its own duration dates from before the clock was set back.
  redis.call('ZREMRANGEBYSCORE', dispatchers, '(' .. now + duration_ms, '+inf')
end
local alive = redis.call('ZRANGEBYSCORE', dispatchers, '(' .. now, '+inf')
-- Last: the list is gone with its last entry.
redis.call('ZREMRANGEBYSCORE', dispatchers, '-inf', now)
return {'alive', now, unpack(alive)}
