#!lua flags=allow-oom
--[[
close_webhooks: a step of a tenant's close: disables up to a number of its subscriptions, each with its event and its
audit entry.
KEYS[1] tenant    hash    KEYS[4] event_log  stream    KEYS[7] audit_log  stream  of the day
KEYS[2] closing   hash    KEYS[5] outbox     stream    KEYS[8] chain      hash
KEYS[3] webhooks  zset    KEYS[6] days       zset      KEYS[9] unsealed   set
KEYS[10] lease    hash    KEYS[11] counts    hash
Keys built: the subscriptions that the list names, read before the first write.
ARGV[1] tenant          ARGV[3] day_start_ms                       ARGV[5] rows at most
ARGV[2] day yyyymmdd    ARGV[4] fencing_token, '' for a request    ARGV[6] webhook_prefix
Reply: clock now_ms | fenced | none | at phase
none: there is no close to go on with.
]]
-- @include base/time, access/tenant, base/days, log/events, log/audit, base/hash_fields, admin/closing_check
-- @include admin/closing, admin/closing_child, admin/counts
local tenant_key, closing_key, list, event_log, outbox, days, audit_log, chain, unsealed, lease, counts = unpack(KEYS)
local tenant, day, day_start_ms, token, rows, webhook_prefix = unpack(ARGV)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if token ~= '' and redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
local closing, ends = closing_read(closing_key, 'webhooks')
if not closing then return ends end
local refused, settings = tenant_refusal(tenant_key)
if refused ~= 'tenant_closed' then return {'none'} end

-- Reads: every subscription.
local ids = redis.call('ZRANGE', list, closing.offset, closing.offset + rows - 1)
local open = {}
for _, id in ipairs(ids) do
  local record = hash_fields(webhook_prefix .. id, 'status', 'name', 'version')
  if record.err then
    closing_failed(closing, 'webhook_subscription:' .. id)
  elseif record[1] == 'ACTIVE' or record[1] == 'PAUSED' then
    open[#open + 1] = {id = id, status = record[1], name = record[2], version = tonumber(record[3]) or 0}
  end
end
if #open > 0 then counts_check(counts) end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, closing.context)
for _, webhook in ipairs(open) do
  counts_move(counts, 'webhook', webhook.status, 'DISABLED')
  redis.call('HSET', webhook_prefix .. webhook.id, 'status', 'DISABLED', 'updated_at_ms', now,
    'version', webhook.version + 1)
  local facts = {'subscription_id', webhook.id, 'prior_status', webhook.status, 'new_status', 'DISABLED'}
  if webhook.name then facts[7], facts[8] = 'name', webhook.name end
  event_append(events, 'webhook.disabled_via_tenant_cascade', nil, closing_data(facts))
  closing_audit(closing, audit_append, now, 'webhook.disabled_via_tenant_cascade', 'webhook_subscription',
    webhook.id, facts)
end
events_point(events)
if #open > 0 then day_register(days, tenant_key, settings, tenant, day, now) end
return closing_advance(closing, 'webhooks', #ids, rows, 'api_keys', 'webhooks_disabled', #open)
