#!lua flags=no-writes,allow-oom
--[[
list_webhooks: the subscriptions of one tenant in the order of their ids, without their secrets.
KEYS[1] api_key  hash    KEYS[2] tenant  hash    KEYS[3] webhooks  zset, lexical
ARGV[1] key_hash, '' for the admin key    ARGV[3] webhook_prefix    ARGV[5] rows, at most
ARGV[2] tenant                            ARGV[4] after: an id      ARGV[6] status, or ''
Keys built: the subscriptions' records.
Reply, first that holds: unauthorized why | forbidden permission | listed last record…; last: the id up to which was looked,
'' where the list ends; each record an array, of a key that holds no hash the id alone
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields, admin/webhook
local key_hash, tenant, webhook_prefix, after, rows, status = unpack(ARGV)
local refusal, why = admin_access_refusal(KEYS[1], KEYS[2], key_hash, tenant, 'webhooks:read', '', now_ms())
if refusal then return {refusal, why} end
local LOOKED_AT_MAX, STEP = 5000, 200
local reply, looked_at, from = {'listed', ''}, 0, after == '' and '-' or '(' .. after
while true do
  local ids = redis.call('ZRANGEBYLEX', KEYS[3], from, '+', 'LIMIT', 0, STEP)
  for _, id in ipairs(ids) do
    local webhook = webhook_prefix .. id
    local fields = hash_fields(webhook, 'status')
    local stored = fields[1]
    if fields.err or stored and (status == '' or stored == status) then
      if #reply - 2 == tonumber(rows) then return reply end
      reply[#reply + 1] = fields.err and {'subscription_id', id} or webhook_shown(webhook)
    end
    reply[2] = id
  end
  looked_at = looked_at + #ids
  if #ids < STEP then
    reply[2] = ''
    return reply
  end
  if looked_at >= LOOKED_AT_MAX then return reply end
  from = '(' .. ids[#ids]
end
