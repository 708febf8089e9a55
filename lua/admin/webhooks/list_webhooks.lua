#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_lists.rs.
Reads the subscriptions of one tenant in the order of their ids, without their secrets.

last: the id up to which was looked, '' where the list ends. The record of a key that holds no hash has the id alone.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  webhooks    zset  webhooks:<tenant>
built    read              hash  webhook:<subscription_id>

ARGV[1]  key_hash        text             Of the API key; empty for the admin key.
ARGV[2]  tenant          text
ARGV[3]  webhook_prefix  prefix webhook:
ARGV[4]  after           text or ''       An id.
ARGV[5]  rows            int64            How many at most.
ARGV[6]  status          text or ''

Replies, the first that applies:
  unauthorized why | forbidden permission | listed last records
Writes:
  Nothing.
]]
local api_key, tenant_key, webhooks = unpack(KEYS)
local key_hash, tenant, webhook_prefix, after, rows, status = unpack(ARGV)
-- End of the signature.
-- @include access/subscription_fence
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields, admin/webhook
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'webhooks:read', '', now_ms())
if refusal then return {refusal, why} end
local LOOKED_AT_MAX, STEP = 5000, 200
local reply, looked_at, from = {'listed', ''}, 0, after == '' and '-' or '(' .. after
while true do
  local ids = redis.call('ZRANGEBYLEX', webhooks, from, '+', 'LIMIT', 0, STEP)
  for _, id in ipairs(ids) do
    local webhook = webhook_prefix .. id
    local fields = hash_fields(webhook, 'status', 'scope_filter')
    local stored = fields[1]
    local matches = fields.err or stored and (status == '' or stored == status)
    if matches and subscription_fence_allows(filter, fields[2]) then
      if #reply - 2 == tonumber(rows) then return reply end
      reply[#reply + 1] = fields.err and {'subscription_id', id} or webhook_without_secrets(webhook)
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
