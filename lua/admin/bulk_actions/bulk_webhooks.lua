#!lua flags=allow-oom
--[[
bulk_webhooks: pauses, resumes or deletes some subscriptions of one owner for a bulk action, and keeps what became of each.
KEYS[1] tenant    hash    KEYS[4] thresholds  hash      KEYS[7] days       zset
KEYS[2] webhooks  zset    KEYS[5] event_log   stream    KEYS[8] counts     hash
KEYS[3] watch     hash    KEYS[6] outbox      stream    KEYS[9] failing    zset
KEYS[10] bulk_rows  hash  KEYS[11..] webhooks to be changed  hash
ARGV[1] owner           ARGV[3] day_start_ms                      ARGV[5] context of events, lines of name and value
ARGV[2] day yyyymmdd    ARGV[4] action PAUSE | RESUME | DELETE    ARGV[6] why one that is gone is skipped
ARGV[7..] of each its subscription_id, the version at which its selectors were judged, and 1 if its owner may have them;
          only what is to be resumed was judged
Reply: clock now_ms | settled, then the outcome of each, '' for one that must be judged again
Writes on settled: the counts, each record that is changed, what it watches, events, the outcomes. What has an outcome is left alone.
]]
-- @include base/time, access/tenant, base/days, ledger/thresholds, admin/watch, base/hash_fields, admin/counts
-- @include admin/failing, log/events, admin/bulk
local tenant_key, webhooks, watch, thresholds, event_log, outbox, days, counts, failing, rows = unpack(KEYS, 1, 10)
local owner, day, day_start_ms, action, context, gone = unpack(ARGV, 1, 6)
local FIRST_KEY, FIRST_ARG = 11, 7
local STATUS = {PAUSE = 'PAUSED', RESUME = 'ACTIVE'}
local EVENTS = {PAUSE = 'webhook.paused', RESUME = 'webhook.resumed', DELETE = 'webhook.deleted'}

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local tenant_refused, settings = tenant_refusal(tenant_key)

-- The outcome of one; nil and its record where it is to be changed; '' where it was judged as another.
local function judge(key, version, may_have_selectors)
  if tenant_refused == 'tenant_closed' then return 'failed TENANT_CLOSED The tenant is closed' end
  if tenant_refused == 'tenant_unreadable' then
    return 'failed INTERNAL_ERROR The record of the tenant cannot be read'
  end
  local stored = hash_fields(key, 'tenant', 'status', 'version', 'millionths')
  if stored.err then return 'failed INTERNAL_ERROR The record of the webhook cannot be read' end
  if stored[1] ~= owner then return 'skipped ' .. gone end
  local status = stored[2]
  if action == 'RESUME' and status == 'DISABLED' then
    return 'failed INVALID_TRANSITION The webhook is disabled; only an update of its own can set it ACTIVE'
  end
  if status == STATUS[action] or (action == 'PAUSE' and status == 'DISABLED') then
    return 'skipped ALREADY_IN_TARGET_STATE'
  end
  if action == 'RESUME' and stored[3] ~= version then return '' end
  if action == 'RESUME' and may_have_selectors ~= '1' then
    return 'failed INVALID_TRANSITION The webhook selects what its tenant may not see'
  end
  return nil, {key = key, status = status or '', version = tonumber(stored[3]) or 0, millionths = stored[4] or ''}
end

local reply, outcomes, changed = {'settled'}, {}, {}
for i = FIRST_KEY, #KEYS do
  local at = FIRST_ARG + (i - FIRST_KEY) * 3
  local id = ARGV[at]
  local outcome = redis.call('HGET', rows, id)
  if not outcome then
    local webhook
    outcome, webhook = judge(KEYS[i], ARGV[at + 1], ARGV[at + 2])
    if webhook then
      outcome, webhook.id = 'succeeded', id
      changed[#changed + 1] = webhook
    end
    if outcome ~= '' then outcomes[#outcomes + 1], outcomes[#outcomes + 2] = id, outcome end
  end
  reply[#reply + 1] = outcome
end
-- What is written without having been read: one of another type raises here.
redis.call('ZCARD', webhooks)
redis.call('ZCARD', failing)
watch_check(watch, thresholds)
if #changed > 0 then counts_check(counts) end
redis.call('ZCARD', days)
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)

-- Effects: none can fail.
local tenant_record = settings[TENANT_STATUS] and tenant_key
local events = events_new(event_log, outbox, owner, day, now, context)
for _, webhook in ipairs(changed) do
  counts_move(counts, 'webhook', webhook.status ~= '' and webhook.status or nil, STATUS[action])
  local data = {'data.subscription_id', webhook.id, 'data.previous_status', webhook.status, 'data.changed_fields', ''}
  if action == 'DELETE' then
    redis.call('ZREM', failing, webhook.id)
    redis.call('DEL', webhook.key)
    redis.call('ZREM', webhooks, webhook.id)
  else
    redis.call('HSET', webhook.key, 'status', STATUS[action], 'updated_at_ms', now, 'version', webhook.version + 1)
    if action == 'RESUME' then
      redis.call('HSET', webhook.key, 'consecutive_failures', 0)
      failing_write(failing, webhook.id, 0)
    end
    data[#data + 1], data[#data + 2] = 'data.new_status', STATUS[action]
  end
  if tenant_record or owner == '__system__' then
    watch_write(watch, thresholds, tenant_record, webhook.id, action == 'RESUME' and webhook.millionths or '')
  end
  event_append(events, EVENTS[action], nil, data)
end
events_point(events)
if #changed > 0 then day_register(days, tenant_key, settings, owner, day, now) end
bulk_rows_keep(rows, outcomes)
return reply
