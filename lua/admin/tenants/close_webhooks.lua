#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/closing.rs.
Takes a step of a tenant's close: disables up to a number of its subscriptions.

none: there is no close to resume.

KEYS[1]   read   lease          hash    lease
KEYS[2]   read   list           zset    webhooks:<tenant>
KEYS[3]   write  tenant_key     hash    tenant:<tenant>
KEYS[4]   write  closing_key    hash    closing:<tenant>
KEYS[5]   write  event_log      stream  events:<tenant>:<day>
KEYS[6]   write  outbox         stream  outbox
KEYS[7]   write  days           zset    days
KEYS[8]   write  audit_log      stream  audit:<tenant>:<day>
KEYS[9]   write  chain          hash    chain:<tenant>
KEYS[10]  write  unsealed       set     unsealed
KEYS[11]  write  counts         hash    counts
KEYS[12]  write  webhooks_mark  string  webhooksmark:<tenant>
KEYS[13]  write  lanes          zset    lanes
built     write                 hash    webhook:<subscription_id>

ARGV[1]  webhook_prefix  prefix webhook:
ARGV[2]  day             yyyymmdd
ARGV[3]  day_start_ms    int64
ARGV[4]  tenant          text
ARGV[5]  fencing_token   int64 or ''      Of the caller's lease, '' for a request.
ARGV[6]  rows            int64            How many at most.

Replies, the first that applies:
  clock now_ms | fenced | none | at phase
Writes:
  On at: the intent; what it ends, each with its events and audit entry.
]]
local lease, list, tenant_key, closing_key, event_log, outbox, days, audit_log, chain, unsealed, counts,
  webhooks_mark, lanes = unpack(KEYS)
local webhook_prefix, day, day_start_ms, tenant, fencing_token, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, base/hash_fields
-- @include admin/closing, admin/closing_child, admin/counts, admin/webhook_status
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local closing, ends = closing_read(closing_key, 'webhooks')
if not closing then return ends end
local refused, settings = tenant_refusal(tenant_key)
if refused ~= 'tenant_closed' then return {'none'} end

-- Reads: every subscription.
local ids = redis.call('ZRANGE', list, closing.offset, closing.offset + rows - 1)
local open = {}
for _, id in ipairs(ids) do
  local record = hash_fields(webhook_prefix .. id, 'status', 'name', 'version', 'epoch')
  if record.err then
    closing_failed(closing, 'webhook_subscription:' .. id)
  elseif record[1] == 'ACTIVE' or record[1] == 'PAUSED' then
    open[#open + 1] = {id = id, status = record[1], name = record[2], version = tonumber(record[3]) or 0,
      epoch = record[4]}
  end
end
if #open > 0 then counts_check(counts) end
local mark = webhooks_mark_read(webhooks_mark)
redis.call('ZCARD', lanes)
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, closing.context)
for _, webhook in ipairs(open) do
  counts_move(counts, 'webhook', webhook.status, 'DISABLED')
  redis.call('HSET', webhook_prefix .. webhook.id, 'status', 'DISABLED', 'updated_at_ms', now,
    'version', webhook.version + 1)
  if webhook.status == 'ACTIVE' then webhook_deactivated(webhook_prefix .. webhook.id, webhook.epoch, lanes, webhook.id) end
  local facts = {'subscription_id', webhook.id, 'prior_status', webhook.status, 'new_status', 'DISABLED'}
  if webhook.name then facts[7], facts[8] = 'name', webhook.name end
  event_append(events, 'webhook.disabled_via_tenant_cascade', nil, closing_data(facts))
  closing_audit(closing, audit_append, now, 'webhook.disabled_via_tenant_cascade', 'webhook_subscription',
    webhook.id, facts)
end
events_point(events)
if #open > 0 then webhooks_mark_renew(webhooks_mark, list, mark, open[1].id) end
if #open > 0 then day_register(days, tenant_key, settings, tenant, day, now) end
return closing_advance(closing, 'webhooks', #ids, rows, 'api_keys', 'webhooks_disabled', #open)
