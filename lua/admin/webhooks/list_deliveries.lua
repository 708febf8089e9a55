#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_deliveries.rs.
Reads the deliveries to a subscription, newest first.

last_ms and last_id: up to which delivery was looked, empty where the list ends. The record of a key that holds no hash
is empty.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  webhook     hash  webhook:<subscription_id>
KEYS[4]  read  deliveries  zset  deliveries:<subscription_id>
built    read              hash  delivery:<delivery_id>

ARGV[1]  key_hash         text              Of the API key; empty for the admin key.
ARGV[2]  tenant           text              Of the API key.
ARGV[3]  delivery_prefix  prefix delivery:
ARGV[4]  from_ms          text              The lowest score, or -inf.
ARGV[5]  to_ms            text              Or +inf.
ARGV[6]  after_id         text or ''        Of the score to_ms, what comes before it was seen.
ARGV[7]  rows             int64             How many at most.
ARGV[8]  status           text or ''

Replies, the first that applies:
  unauthorized why | forbidden permission | webhook_not_found | scope_forbidden filter |
  listed last_ms last_id id_record
Writes:
  Nothing.
]]
local api_key, tenant_key, webhook, deliveries = unpack(KEYS)
local key_hash, tenant, delivery_prefix, from_ms, to_ms, after_id, rows, status = unpack(ARGV)
-- End of the signature.
-- @include access/subscription_fence
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'webhooks:read', '', now_ms())
if refusal then return {refusal, why} end
local owner, scope_filter = unpack(redis.call('HMGET', webhook, 'tenant', 'scope_filter'))
if not owner or (key_hash ~= '' and owner ~= tenant) then return {'webhook_not_found'} end
if not subscription_fence_allows(filter, scope_filter) then return {'scope_forbidden', filter} end
local LOOKED_AT_MAX, STEP = 5000, 200
local reply, looked_at = {'listed', '', ''}, 0
while true do
  local found = redis.call('ZREVRANGEBYSCORE', deliveries, to_ms, from_ms, 'WITHSCORES', 'LIMIT', looked_at, STEP)
  for i = 1, #found, 2 do
    local id, at_ms = found[i], found[i + 1]
    local seen = after_id ~= '' and at_ms == to_ms and id >= after_id
    local delivery = delivery_prefix .. id
    local fields = seen and {} or hash_fields(delivery, 'status')
    local stored = fields[1]
    if fields.err or stored and (status == '' or stored == status) then
      if (#reply - 3) / 2 == tonumber(rows) then return reply end
      reply[#reply + 1], reply[#reply + 2] = id, fields.err and {} or redis.call('HGETALL', delivery)
    end
    reply[2], reply[3] = at_ms, id
  end
  looked_at = looked_at + #found / 2
  if #found < 2 * STEP then
    reply[2], reply[3] = '', ''
    return reply
  end
  if looked_at >= LOOKED_AT_MAX then return reply end
end
