#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/fan_out.rs.
Gives subscriptions that do not say since when they are active the present place of their outbox, and their owner a mark
of them.

KEYS[1]  read   outbox         stream  outbox
KEYS[2]  read   webhooks       zset    webhooks:<owner>
KEYS[3]  write  webhooks_mark  string  webhooksmark:<owner>
KEYS[4]  write  watch          hash    watch:<owner>
KEYS[5]  write  thresholds     hash    thresholds
KEYS[6]  write  tenant_key     hash    tenant:<owner>
built    write                 hash    webhook:<subscription_id>

ARGV[1]    webhook_prefix  prefix webhook:
ARGV[2]    owner           text
ARGV[3..]  subscriptions   to the end       Each with what it watches, blanks between.

Replies, the first that applies:
  adopted mark
Writes:
  On adopted: the subscriptions, what they watch, the mark.
]]
local outbox, webhooks, webhooks_mark, watch, thresholds, tenant_key = unpack(KEYS)
local webhook_prefix, owner = unpack(ARGV, 1, 2)
local subscriptions_from = 3
-- End of the signature.
-- @include base/time, admin/watch, admin/webhook_status
local now = now_ms()
local last = redis.call('XREVRANGE', outbox, '+', '-', 'COUNT', 1)[1]
local mark = webhooks_mark_read(webhooks_mark)
redis.call('ZCARD', webhooks)
watch_check(watch, thresholds)
local is_system = owner == '__system__'
local tenant_record = not is_system and redis.call('HEXISTS', tenant_key, 'status') == 1 and tenant_key or nil
local adopted = {}
for i = subscriptions_from, #ARGV, 2 do
  local webhook = webhook_prefix .. ARGV[i]
  local stored = redis.call('HMGET', webhook, 'tenant', 'since', 'status')
  if stored[1] and not stored[2] then
    adopted[#adopted + 1] = {key = webhook, id = ARGV[i], watched = ARGV[i + 1], is_active = stored[3] == 'ACTIVE'}
  end
end

-- Effects: none can fail.
for _, webhook in ipairs(adopted) do
  webhook_activated(webhook.key, last and last[1] or '0-0', now)
  redis.call('HSET', webhook.key, 'watched', webhook.watched)
  if webhook.is_active and (is_system or tenant_record) then
    -- The operator's are copied to the partitions by a pass of its own.
    watch_write(watch, thresholds, tenant_record, webhook.id, webhook.watched)
  end
end
if mark == '' then webhooks_mark_renew(webhooks_mark, webhooks, mark, '') end
return {'adopted', redis.call('GET', webhooks_mark) or ''}
