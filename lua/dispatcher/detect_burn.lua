#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/traffic.rs.
Compares what a ledger was charged in each window that is watched with what is usual, and emits an event for each limit
that is exceeded since the evaluation before. However often it is called, the state of a limit changes only with its
event.

KEYS[1]  read   lease       hash    lease
KEYS[2]  read   budget      hash    budget:<tenant>:<unit>:<scope>
KEYS[3]  write  burn        hash    burn:<tenant>:<unit>:<scope>
KEYS[4]  write  burning     zset    burning
KEYS[5]  write  event_log   stream  events:<tenant>:<day>
KEYS[6]  write  outbox      stream  outbox
KEYS[7]  write  days        zset    days
KEYS[8]  write  tenant_key  hash    tenant:<tenant>

ARGV[1]  day            yyyymmdd
ARGV[2]  day_start_ms   int64
ARGV[3]  tenant         text
ARGV[4]  unit           text
ARGV[5]  scope          text
ARGV[6]  fencing_token  int64
ARGV[7]  context        text      The request cause, lines of name and value.

Replies, the first that applies:
  clock now_ms | fenced | early | flushed count
Writes:
  On flushed: the events, the state of the limits, the time in the index.
]]
local lease, budget, burn, burning, event_log, outbox, days, tenant_key = unpack(KEYS)
local day, day_start_ms, tenant, unit, scope, fencing_token, context = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, detect/burn
-- Whole windows before the present one that define the usual rate, and how many of them must have charges.
local BASELINE, BASELINE_MIN = 12, 3

local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local member = tenant .. ' ' .. unit .. ' ' .. scope
local due_ms = redis.call('ZSCORE', burning, member)
if due_ms and tonumber(due_ms) > now then return {'early'} end
local refused, settings = tenant_refusal(tenant_key, 'watched_rates')
local limits = burn_limits(not settings.err and refused ~= 'tenant_closed' and settings[4], scope)
local remaining = redis.call('HGET', budget, 'remaining')
local stored = redis.call('HGETALL', burn)
day_check(days, settings, day)
for _, log in ipairs({event_log, outbox}) do redis.call('XLEN', log) end

-- Charges in each bucket of each window, and the exceeded limits.
local charged, fired, gone = {}, {}, {}
for i = 1, #stored, 2 do
  local window = stored[i]:match('^(%d+)%.%d+$')
  if window then
    local row, amounts = burn_amounts(stored[i + 1])
    -- Rows in the future date from before the clock was set back.
    if row and row > math.floor(now / window / 1000) then gone[#gone + 1], amounts = stored[i], {} end
    charged[window] = charged[window] or {}
    for place, amount in ipairs(amounts) do charged[window][row * BURN_BUCKETS + place - 1] = amount end
  else
    fired[stored[i]] = true
  end
end

-- Returns the charges of a window: the last complete one, or one before it.
local function charged_in(buckets, present, before)
  local total = 0
  for back = before * BURN_BUCKETS + 1, before * BURN_BUCKETS + BURN_BUCKETS do
    total = total + (buckets[present - back] or 0)
  end
  return total
end

local events, kept, next_ms = {}, {}, nil
for _, limit in ipairs(limits) do
  local above, window = unpack(limit)
  local name = above .. ' ' .. window
  local present, later_ms = burn_bucket(window, now)
  local buckets = charged[tostring(window)] or {}
  local current, baseline, filled, whole = charged_in(buckets, present, 0), 0, 0, 0
  local sum, charged_windows, latest = 0, 0, nil
  -- A ledger younger than twelve windows is compared with those that it has. The oldest one with charges is left out: they may have
  -- begun in its middle.
  for before = 1, BASELINE + 1 do
    local total = charged_in(buckets, present, before)
    if total > 0 then
      baseline, filled, whole = sum, charged_windows, before - 1
      sum, charged_windows, latest = sum + total, charged_windows + 1, latest or before
    end
  end
  if filled >= BASELINE_MIN and current > tonumber(above) * baseline / whole then
    kept[name] = true
    if not fired[name] and remaining then
      events[#events + 1] = {'data.unit', unit, 'data.charged', ('%.0f'):format(current),
        'data.baseline_charged', ('%.0f'):format(baseline), 'data.baseline_windows', whole, 'data.window_seconds', window,
        'data.multiplier_limit', above, 'data.remaining', remaining}
    end
  end
  local is_present = (buckets[present] or 0) > 0
  local is_recent = is_present or current > 0 or latest and latest <= BASELINE
  if is_recent or kept[name] then next_ms = math.min(next_ms or later_ms, later_ms) end
end
for name in pairs(fired) do
  if not kept[name] then gone[#gone + 1] = name end
end

-- Effects: none can fail.
if next_ms then
  for name in pairs(kept) do redis.call('HSET', burn, name, 1) end
  if #gone > 0 then redis.call('HDEL', burn, unpack(gone)) end
  redis.call('ZADD', burning, next_ms, member)
else
  redis.call('DEL', burn)
  redis.call('ZREM', burning, member)
end
local log = events_new(event_log, outbox, tenant, day, now, context)
for _, data in ipairs(events) do event_append(log, 'budget.burn_rate_anomaly', scope, data) end
events_point(log)
if log.count > 0 and not settings.err then day_register(days, tenant_key, settings, tenant, day, now) end
return {'flushed', log.count}
