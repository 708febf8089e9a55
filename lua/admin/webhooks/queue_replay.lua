#!lua
--[[
queue_replay: keeps the events to be delivered again, in their order, for the dispatcher, and ends the claim.
KEYS[1] webhook  hash    KEYS[4] replay_events  list    KEYS[6] audit_log  stream  of the day    KEYS[9]  days    zset
KEYS[2] lock     string  KEYS[5] replays        zset    KEYS[7] chain      hash                  KEYS[10] tenant  hash
KEYS[3] replay   hash                                   KEYS[8] unsealed   set
ARGV[1] owner            ARGV[4] subscription_id    ARGV[6] replay_id    ARGV[9] n, then n ids of events,
ARGV[2] day yyyymmdd     ARGV[5] token, '' where    ARGV[7] keep_ms              then names and values of the audit entry
ARGV[3] day_start_ms             no claim is held   ARGV[8] context
Reply, first that holds: clock now_ms | not_found | tenant_unreadable | tenant_closed | lost | queued
Writes on queued: where there are events, the replay and its place in the queue; the audit entry. What has waited longer
than keep_ms leaves the queue: a delivery as old would fail unsent.
]]
-- @include base/time, access/tenant, base/days, log/audit
local webhook, lock, replay, replay_events, replays, audit_log, chain, unsealed, days, tenant_key = unpack(KEYS)
local owner, day, day_start_ms, subscription_id, token, replay_id, keep_ms, context = unpack(ARGV, 1, 8)
local events_end = 9 + ARGV[9]
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', webhook, 'tenant') ~= owner then return {'not_found'} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_suspended' then tenant_refused = nil end
if tenant_refused then return {tenant_refused} end
if token ~= '' and redis.call('GET', lock) ~= token then return {'lost'} end
local audit_append = audit_trail(owner, audit_log, chain, unsealed, days)

-- Effects. The first raises if the key is of another type.
redis.call('ZREMRANGEBYSCORE', replays, '-inf', now - keep_ms)
if events_end > 9 then
  redis.call('HSET', replay, 'subscription_id', subscription_id, 'owner', owner, 'count', ARGV[9], 'created_at_ms', now,
    'context', context)
  for i = 10, events_end, 500 do redis.call('RPUSH', replay_events, unpack(ARGV, i, math.min(i + 499, events_end))) end
  redis.call('ZADD', replays, now, replay_id)
  redis.call('PEXPIRE', replay, keep_ms)
  redis.call('PEXPIRE', replay_events, keep_ms)
end
if token ~= '' then redis.call('DEL', lock) end
audit_append(now, {unpack(ARGV, events_end + 1)})
day_register(days, tenant_key, settings, owner, day, now)
return {'queued'}
