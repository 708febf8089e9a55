#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk_rows.rs.
Pauses, resumes or deletes some subscriptions of one owner for a bulk action, and keeps the outcome of each. A row that
has an outcome is left alone.

The outcome is '' for a subscription that must be judged again.

KEYS[1]     write  tenant_key       hash    tenant:<owner>
KEYS[2]     write  webhooks         zset    webhooks:<owner>
KEYS[3]     write  webhooks_mark    string  webhooksmark:<owner>
KEYS[4]     write  watch            hash    watch:<owner>
KEYS[5]     write  thresholds       hash    thresholds
KEYS[6]     write  event_log        stream  events:<owner>:<day>
KEYS[7]     write  outbox           stream  outbox
KEYS[8]     write  days             zset    days
KEYS[9]     write  counts           hash    counts
KEYS[10]    write  failing          zset    failing
KEYS[11]    write  lanes            zset    lanes
KEYS[12]    write  bulk_rows        hash    bulkrow:<claim_id>
KEYS[13]    write  idempotency_due  zset    idemdue
KEYS[14..]  write  changed          hash    webhook:<subscription_id>

ARGV[1]    day             yyyymmdd
ARGV[2]    day_start_ms    int64
ARGV[3]    owner           text
ARGV[4]    action          text        PAUSE, RESUME or DELETE.
ARGV[5]    context         text        The request cause, lines of name and value.
ARGV[6]    gone            text        Why a subscription that is gone is skipped.
ARGV[7]    thresholds_max  int64       Different thresholds that the owner's subscriptions may watch.
ARGV[8..]  rows            to the end
    Of each its id, the version at which its selectors were judged, and 1 if its owner may have them; only what is to be
    resumed was judged.

Replies, the first that applies:
  clock now_ms | done outcomes
Writes:
  On done: the counts, each subscription that is changed, what it watches, events, the outcomes.
]]
local tenant_key, webhooks, webhooks_mark, watch, thresholds, event_log, outbox, days, counts, failing, lanes,
  bulk_rows, idempotency_due = unpack(KEYS, 1, 13)
local day, day_start_ms, owner, action, context, gone, thresholds_max = unpack(ARGV, 1, 7)
local changed_from = 14
local rows_from = 8
-- End of the signature.
-- @include base/time, access/tenant, log/days, ledger/thresholds, admin/watch, base/hash_fields, admin/counts
-- @include admin/webhook_status, admin/failing, log/events, admin/bulk
local STATUS = {PAUSE = 'PAUSED', RESUME = 'ACTIVE'}
local EVENTS = {PAUSE = 'webhook.paused', RESUME = 'webhook.resumed', DELETE = 'webhook.deleted'}

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local tenant_refused, settings = tenant_refusal(tenant_key)

-- The thresholds of the subscriptions to resume, blanks between.
local resumed = ''

-- The outcome of one; nil and its record if it is to be changed; '' if it has changed since the replica read it.
local function judge(key, version, may_have_selectors)
  if tenant_refused == 'tenant_closed' then return 'failed TENANT_CLOSED The tenant is closed' end
  if tenant_refused == 'tenant_unreadable' then
    return 'failed INTERNAL_ERROR The record of the tenant cannot be read'
  end
  local stored = hash_fields(key, 'tenant', 'status', 'version', 'watched', 'epoch', 'millionths')
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
  if action == 'RESUME' then
    local watched = resumed .. ' ' .. (stored[4] or stored[6] or '')
    local excess = watch_excess(watch, '', watched, thresholds_max)
    if excess then
      return 'failed LIMIT_EXCEEDED The active webhooks of the owner would watch too many different '
        .. (excess == 'thresholds' and 'thresholds' or 'windows of burn rates')
    end
    resumed = watched
  end
  return nil, {key = key, status = status or '', version = tonumber(stored[3]) or 0,
    watched = stored[4] or stored[6] or '',
    epoch = stored[5]}
end

local reply, outcomes, changed = {'done'}, {}, {}
for i = changed_from, #KEYS do
  local at = rows_from + (i - changed_from) * 3
  local id = ARGV[at]
  local outcome = redis.call('HGET', bulk_rows, id)
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
-- Keys that are written without a read: one of the wrong type raises here.
redis.call('ZCARD', webhooks)
redis.call('ZCARD', failing)
redis.call('ZCARD', lanes)
local mark = webhooks_mark_read(webhooks_mark)
watch_check(watch, thresholds)
if #changed > 0 then counts_check(counts) end
redis.call('ZCARD', days)
redis.call('ZCARD', idempotency_due)
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
    webhook_deliveries_end(lanes, webhook.id)
    redis.call('ZREM', webhooks, webhook.id)
  else
    redis.call('HSET', webhook.key, 'status', STATUS[action], 'updated_at_ms', now, 'version', webhook.version + 1)
    if action == 'PAUSE' then webhook_deactivated(webhook.key, webhook.epoch, lanes, webhook.id) end
    if action == 'RESUME' then
      redis.call('HSET', webhook.key, 'consecutive_failures', 0)
      failing_write(failing, webhook.id, 0)
    end
    data[#data + 1], data[#data + 2] = 'data.new_status', STATUS[action]
  end
  if tenant_record or owner == '__system__' then
    watch_write(watch, thresholds, tenant_record, webhook.id, action == 'RESUME' and webhook.watched or '')
  end
  event_append(events, EVENTS[action], nil, data)
end
local place = events_point(events)
if action == 'RESUME' then
  for _, webhook in ipairs(changed) do webhook_activated(webhook.key, place, now) end
end
if #changed > 0 then webhooks_mark_renew(webhooks_mark, webhooks, mark, changed[1].id) end
if #changed > 0 then day_register(days, tenant_key, settings, owner, day, now) end
bulk_rows_keep(bulk_rows, outcomes, idempotency_due, now)
return reply
