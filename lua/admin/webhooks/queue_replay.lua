#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_replays.rs.
Keeps the deliveries of a replay in their order, for the dispatcher, and makes of the claim the lock of the replay.

Where the subscription has stopped being active meanwhile, nothing is kept. count: how many were.

KEYS[1]   read   webhook        hash    webhook:<subscription_id>
KEYS[2]   write  tenant_key     hash    tenant:<owner>
KEYS[3]   write  replay_lock    string  replaylock:<subscription_id>
KEYS[4]   write  replay         hash    replay:<replay_id>
KEYS[5]   write  replay_events  list    replayevents:<replay_id>
KEYS[6]   write  replays        zset    replays
KEYS[7]   write  audit_log      stream  audit:<owner>:<day>
KEYS[8]   write  chain          hash    chain:<owner>
KEYS[9]   write  unsealed       set     unsealed
KEYS[10]  write  days           zset    days

ARGV[1]                    day              yyyymmdd
ARGV[2]                    day_start_ms     int64
ARGV[3]                    owner            text
ARGV[4]                    subscription_id  text
ARGV[5]                    token            text or ''      '' where no claim is held.
ARGV[6]                    replay_id        text
ARGV[7]                    lock_ms          int64
ARGV[8]                    keep_ms          int64
ARGV[9]                    deliveries       n, then n more  As their key holds them.
ARGV[deliveries_to + 1..]  audit            to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | webhook_not_found | tenant_unreadable | tenant_closed | lost | queued count
Writes:
  On queued: where there are deliveries, the replay, its lock and its place in the queue; the audit entry.
]]
local webhook, tenant_key, replay_lock, replay, replay_events, replays, audit_log, chain, unsealed, days
  = unpack(KEYS)
local day, day_start_ms, owner, subscription_id, token, replay_id, lock_ms, keep_ms = unpack(ARGV, 1, 8)
local deliveries_from = 10
local deliveries_to = 9 + ARGV[9]
local audit_from = deliveries_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/audit
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local stored = redis.call('HMGET', webhook, 'tenant', 'status', 'epoch')
if stored[1] ~= owner then return {'webhook_not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if token ~= '' and redis.call('GET', replay_lock) ~= token then return {'lost'} end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days)
redis.call('ZCARD', replays)
local count = stored[2] == 'ACTIVE' and deliveries_to - deliveries_from + 1 or 0

-- Effects: none can fail.
if count > 0 then
  redis.call('HSET', replay, 'subscription_id', subscription_id, 'epoch', stored[3] or 0, 'created_at_ms', now, 'day', day)
  for i = deliveries_from, deliveries_to, 500 do
    redis.call('RPUSH', replay_events, unpack(ARGV, i, math.min(i + 499, deliveries_to)))
  end
  redis.call('ZADD', replays, now, replay_id)
  redis.call('PEXPIRE', replay, keep_ms)
  redis.call('PEXPIRE', replay_events, keep_ms)
  redis.call('SET', replay_lock, replay_id, 'PX', lock_ms)
elseif token ~= '' then
  redis.call('DEL', replay_lock)
end
local audit = {unpack(ARGV, audit_from)}
audit[#audit + 1], audit[#audit + 2] = 'metadata.events_queued', count
audit_append(now, audit)
day_register(days, tenant_key, settings, owner, day, now)
return {'queued', count}
