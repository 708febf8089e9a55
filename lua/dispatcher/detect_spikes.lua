#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/traffic.rs.
Judges the shares of denials, expiries and refused keys of one tenant, or of no tenant, and emits an event for each
limit that is exceeded since the evaluation before. However often it is called, the state of a limit changes only with
its event, and an evaluation before its time does nothing.

KEYS[1]  read   lease        hash    lease
KEYS[2]  read   thresholds   hash    thresholds
KEYS[3]  write  traffic      hash    traffic:<tenant>
KEYS[4]  write  traffic_due  zset    traffic
KEYS[5]  write  event_log    stream  events:<tenant>:<day>
KEYS[6]  write  outbox       stream  outbox
KEYS[7]  write  days         zset    days
KEYS[8]  write  tenant_key   hash    tenant:<tenant>

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text      Or __system__.
ARGV[4]  fencing_token  int64
ARGV[5]  context        text      The request cause, lines of name and value.
ARGV[6]  samples_min    int64     With fewer samples nothing is unusual.

Replies, the first that applies:
  clock now_ms | fenced | early | flushed count
Writes:
  On flushed: the events, the state of the limits; what is too old goes.
]]
local lease, thresholds, traffic, traffic_due, event_log, outbox, days, tenant_key = unpack(KEYS)
local day, day_start_ms, tenant, fencing_token, context, samples_min = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, detect/traffic
local EVENTS = {denial_rate = 'reservation.denial_rate_spike', expiry_rate = 'reservation.expiry_rate_spike',
  auth_failure_rate = 'api_key.auth_failure_rate_spike'}
-- The counted outcome, and the total of which it is a share.
local SHARES = {denial_rate = {TRAFFIC_DENIED, TRAFFIC_DECIDED}, expiry_rate = {TRAFFIC_EXPIRED, TRAFFIC_ENDED},
  auth_failure_rate = {TRAFFIC_REFUSED, TRAFFIC_TRIED}}
local USUAL = 'denial_rate:0.1:300 expiry_rate:0.05:300 auth_failure_rate:0.1:300 '

local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local due_ms = tonumber(redis.call('ZSCORE', traffic_due, tenant) or 0)
-- A later time dates from before the clock was set back.
if due_ms > now and due_ms <= now + TRAFFIC_PERIOD_MS then return {'early'} end
local refused, settings = tenant_refusal(tenant_key, 'watched_rates')
local is_system = tenant == '__system__'
local watched = is_system and redis.call('HGET', thresholds, 'union') or not settings.err and settings[4]
local stored = redis.call('HGETALL', traffic)
day_check(days, settings, day)
for _, log in ipairs({event_log, outbox}) do redis.call('XLEN', log) end

-- Per width: sums over the latest buckets, and whether any counted outcome is in them at all.
local totals, outdated, fired, unusual, span_ms = {}, {}, {}, 0, 0
local present = {}
for _, width in ipairs(TRAFFIC_WIDTHS) do present[tostring(width)] = math.floor(now / 1000 / width) end
for i = 1, #stored, 2 do
  local field, width = stored[i], stored[i]:match('^(%d+)%.%d+$')
  if width and present[width] then
    local index, rest = stored[i + 1]:match('^(%d+) (.*)$')
    local age = index and present[width] - index
    if age and age >= 0 and age < TRAFFIC_BUCKETS then
      totals[width] = totals[width] or {}
      local bucket = {}
      for word in rest:gmatch('%d+') do bucket[#bucket + 1] = tonumber(word) end
      totals[width][age + 1] = bucket
      unusual = unusual + (bucket[TRAFFIC_DENIED] or 0) + (bucket[TRAFFIC_EXPIRED] or 0) + (bucket[TRAFFIC_REFUSED] or 0)
    else
      outdated[#outdated + 1] = field
    end
  else
    fired[field] = stored[i + 1]
  end
end
for _, buckets in pairs(totals) do
  local before = {0, 0, 0, 0, 0, 0}
  for age = 1, TRAFFIC_BUCKETS do
    local bucket = buckets[age] or {}
    for what = 1, 6 do bucket[what] = (bucket[what] or 0) + before[what] end
    buckets[age], before = bucket, bucket
  end
end

-- Expiries are counted at once, the other ends of reservations up to 5 seconds later. So the latest expiries do not count yet.
local latest = ((totals[tostring(TRAFFIC_WIDTHS[1])] or {})[2] or {})[TRAFFIC_EXPIRED] or 0

-- Evaluates one limit. An event is due if the share exceeds it and did not at the evaluation before, or the last event
-- is older than the window.
local events, kept, judged = {}, {}, {}
local function judge(metric, above, window)
  local name = metric .. ' ' .. above .. ' ' .. window
  if judged[name] or is_system ~= (metric == 'auth_failure_rate' and is_system) then return end
  judged[name] = true
  span_ms = math.max(span_ms, window * 1000)
  local width, share = traffic_width(window), SHARES[metric]
  local total = (totals[tostring(width)] or {})[math.ceil(window / width)] or {0, 0, 0, 0, 0, 0}
  local early = metric == 'expiry_rate' and latest or 0
  local occurrences, samples = total[share[1]] - early, total[share[2]] - early
  local at_ms, armed = (fired[name] or ''):match('^(%d+) (%d)$')
  -- A time in the future dates from before the clock was set back.
  at_ms = at_ms and math.min(tonumber(at_ms), now)
  if samples == 0 or occurrences / samples <= tonumber(above) then
    armed = '1'
  elseif samples >= tonumber(samples_min) and armed ~= '0' and (not at_ms or now - at_ms >= window * 1000) then
    at_ms, armed = now, '0'
    events[#events + 1] = {EVENTS[metric], {'data.metric', metric, 'data.occurrences', ('%.0f'):format(occurrences),
      'data.sample_count', ('%.0f'):format(samples), 'data.threshold_rate', above, 'data.window_seconds', window}}
  end
  if at_ms and (armed == '0' or now - at_ms < window * 1000) then kept[name] = ('%.0f '):format(at_ms) .. (armed or '1') end
end
-- The close of a tenant is its last event, so no rate is reported after it.
if refused ~= 'tenant_closed' then traffic_limits(USUAL .. (watched or ''), judge) end

-- Effects: none can fail.
local is_watched = next(kept) or unusual > 0
if refused == 'tenant_closed' then
  redis.call('DEL', traffic)
  is_watched = nil
else
  for field in pairs(fired) do
    if not kept[field] then outdated[#outdated + 1] = field end
  end
  for field, state in pairs(kept) do redis.call('HSET', traffic, field, state) end
  if #outdated > 0 then redis.call('HDEL', traffic, unpack(outdated)) end
end
if is_watched then
  redis.call('PEXPIRE', traffic, 2 * math.max(span_ms, TRAFFIC_WIDTHS[1] * TRAFFIC_BUCKETS * 1000))
  redis.call('ZADD', traffic_due, now - now % TRAFFIC_PERIOD_MS + TRAFFIC_PERIOD_MS, tenant)
else
  redis.call('ZREM', traffic_due, tenant)
end
local log = events_new(event_log, outbox, tenant, day, now, context)
for _, event in ipairs(events) do event_append(log, event[1], nil, event[2]) end
events_point(log)
if log.count > 0 then
  if is_system then redis.call('ZADD', days, 'NX', now, tenant .. ':' .. day)
  elseif not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
end
return {'flushed', log.count}
