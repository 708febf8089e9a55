#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/closing.rs.
Ends a process's work on a tenant's close. After the last phase it emits tenant.closed, once, and removes the intent;
where something could not be closed, all is tried again later.

action: end after the last phase, pause when the pass's time is over, fail when a step raised an error. none: there is
no close to resume. at: the phases have not ended.

KEYS[1]   read   lease       hash    lease
KEYS[2]   write  tenant_key  hash    tenant:<tenant>
KEYS[3]   write  closing     hash    closing:<tenant>
KEYS[4]   write  closings    zset    closings
KEYS[5]   write  event_log   stream  events:<tenant>:<day>
KEYS[6]   write  outbox      stream  outbox
KEYS[7]   write  days        zset    days
KEYS[8]   write  audit_log   stream  audit:<tenant>:<day>
KEYS[9]   write  chain       hash    chain:<tenant>
KEYS[10]  write  unsealed    set     unsealed

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text
ARGV[4]  fencing_token  int64 or ''  Of the caller's lease, '' for a request.
ARGV[5]  action         text
ARGV[6]  what           text         The failed resources, or ''.

Replies, the first that applies:
  clock now_ms | fenced | none | at phase | closed anything | paused | incomplete again_in_ms failed
Writes:
  The audit entry of the request that closed, while it waits; on closed the event and the end of the intent.
]]
local lease, tenant_key, closing, closings, event_log, outbox, days, audit_log, chain, unsealed = unpack(KEYS)
local day, day_start_ms, tenant, fencing_token, action, what = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, admin/closing_request
local AGAIN_MS, AGAIN_MAX_MS = 30000, 1800000
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local phase, failures, failed, attempts, context, correlation_id, parent, parent_correlation_id, previous_status =
  unpack(redis.call('HMGET', closing, 'phase', 'failures', 'failed', 'attempts', 'context', 'correlation_id', 'parent',
    'parent_correlation_id', 'previous_status'))
if not phase then return {'none'} end
if action == 'end' and phase ~= 'end' then return {'at', phase} end
local _, settings = tenant_refusal(tenant_key)
if settings[TENANT_STATUS] ~= 'CLOSED' then return {'none'} end
redis.call('ZCARD', closings)
-- Damaged fields of the intent must not fail the effects. A failure starts over, which repairs them.
attempts = tonumber(attempts or 0) or 0
failures = failures and (tonumber(failures) or 0)
failed = failed or ''
if action == 'end' and not (context and correlation_id and (previous_status or not parent)) then
  error(closing .. ': the intent is not whole')
end
if not (redis.call('HGET', closing, 'audit') or '0'):find('^%d+$') then error(closing .. ': audit is no number') end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
day_register(days, tenant_key, settings, tenant, day, now)
if action == 'pause' then
  closing_request_audit(closing, audit_append, now, 200, true)
  redis.call('ZADD', closings, now, tenant)
  return {'paused'}
end
if action == 'fail' or failures then
  if action == 'fail' then
    failures, failed = (failures or 0) + 1, failed == '' and what or failed .. ' ' .. what
    redis.call('HSET', closing, 'failures', failures, 'failed', failed)
  end
  closing_request_audit(closing, audit_append, now, 500, true)
  local again_in_ms = math.min(AGAIN_MS * 2 ^ math.min(attempts, 10), AGAIN_MAX_MS)
  redis.call('HDEL', closing, 'failures', 'failed')
  redis.call('HSET', closing, 'phase', 'reservations', 'offset', 0, 'attempts', attempts + 1)
  redis.call('ZADD', closings, now + again_in_ms, tenant)
  local reply = {'incomplete', again_in_ms}
  for word in failed:gmatch('%S+') do reply[#reply + 1] = word end
  return reply
end
closing_request_audit(closing, audit_append, now, 200, false)
local anything, counts = 0, closing_summary(closing, false)
for i = 2, 8, 2 do
  if tostring(counts[i]) ~= '0' then anything = 1 end
end
if parent then
  local events = events_new(event_log, outbox, tenant, day, now,
    context .. '\ncorrelation_id ' .. (parent_correlation_id or correlation_id))
  local data = {'data.new_status', 'CLOSED', 'data.changed_fields', ''}
  if previous_status ~= 'CLOSED' then data[5], data[6] = 'data.previous_status', previous_status end
  event_append(events, 'tenant.closed', nil, data)
  events_point(events)
  redis.call('HSET', tenant_key, 'closed_told', 1)
end
redis.call('UNLINK', closing)
redis.call('ZREM', closings, tenant)
return {'closed', anything}
