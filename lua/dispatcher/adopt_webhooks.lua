#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/adopt_webhooks.rs.
Gives subscriptions that do not say since when they are active the present place of their outbox, and their owner a mark
of them.

KEYS[1]  read   outbox         stream  outbox
KEYS[2]  read   webhooks       zset    webhooks:<owner>
KEYS[3]  write  webhooks_mark  string  webhooksmark:<owner>
built    write                 hash    webhook:<subscription_id>

ARGV[1]    webhook_prefix    prefix webhook:
ARGV[2..]  subscription_ids  to the end

Replies, the first that applies:
  adopted mark
Writes:
  On adopted: the subscriptions, the mark.
]]
local outbox, webhooks, webhooks_mark = unpack(KEYS)
local webhook_prefix = ARGV[1]
local subscription_ids_from = 2
-- End of the signature.
-- @include base/time, admin/webhook_status
local now = now_ms()
local last = redis.call('XREVRANGE', outbox, '+', '-', 'COUNT', 1)[1]
local mark = webhooks_mark_read(webhooks_mark)
redis.call('ZCARD', webhooks)
local adopted = {}
for i = subscription_ids_from, #ARGV do
  local webhook = webhook_prefix .. ARGV[i]
  local stored = redis.call('HMGET', webhook, 'tenant', 'since')
  if stored[1] and not stored[2] then adopted[#adopted + 1] = webhook end
end

-- Effects: none can fail.
for _, webhook in ipairs(adopted) do webhook_activated(webhook, last and last[1] or '0-0', now) end
if mark == '' then webhooks_mark_renew(webhooks_mark, webhooks, mark, '') end
return {'adopted', redis.call('GET', webhooks_mark) or ''}
