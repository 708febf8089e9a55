#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_deliveries.rs.
Reads deliveries of a day to a subscription, newest first.

last_ms and last: up to which delivery was looked, empty where the day ends. The record of a key that holds no hash is
empty.

KEYS[1]  read  api_key     hash  apikey:<key_id>
KEYS[2]  read  tenant_key  hash  tenant:<tenant>
KEYS[3]  read  webhook     hash  webhook:<subscription_id>
KEYS[4]  read  deliveries  zset  deliveries:<subscription_id>:<queued_on>
built    read              hash  delivery:<delivery_id>

ARGV[1]  delivery_prefix  prefix delivery:
ARGV[2]  key_hash         text              Of the API key; empty for the admin key.
ARGV[3]  tenant           text              Of the API key.
ARGV[4]  from_ms          text              The lowest score, or -inf.
ARGV[5]  to_ms            text              Or +inf.
ARGV[6]  after            text or ''        The last entry that was seen, if one was.
ARGV[7]  rows             int64             How many at most.
ARGV[8]  status           text or ''

Replies, the first that applies:
  unauthorized why | forbidden permission | webhook_not_found | scope_forbidden filter | listed last_ms last id_record
Writes:
  Nothing.
]]
local api_key, tenant_key, webhook, deliveries = unpack(KEYS)
local delivery_prefix, key_hash, tenant, from_ms, to_ms, after, rows, status = unpack(ARGV)
-- End of the signature.
-- @include access/subscription_fence
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields
local refusal, why, filter =
  admin_access_refusal(api_key, tenant_key, key_hash, tenant, 'webhooks:read', '', now_ms())
if refusal then return {refusal, why} end
local owner, scope_filter = unpack(redis.call('HMGET', webhook, 'tenant', 'scope_filter'))
if not owner or (key_hash ~= '' and owner ~= tenant) then return {'webhook_not_found'} end
if not subscription_fence_allows(filter, scope_filter) then return {'scope_forbidden', filter} end
local STEP = 200
local reply = {'listed', '', ''}
-- By rank, because more rows may have one time than a step returns.
local rank = after ~= '' and redis.call('ZREVRANK', deliveries, after)
local from = rank and rank + 1 or to_ms ~= '+inf' and redis.call('ZCOUNT', deliveries, '(' .. to_ms, '+inf') or 0
local found = redis.call('ZREVRANGE', deliveries, from, from + STEP - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  -- A number that rises, a blank, the id.
  local member, at_ms = found[i], found[i + 1]
  if from_ms ~= '-inf' and tonumber(at_ms) < tonumber(from_ms) then
    reply[2], reply[3] = '', ''
    return reply
  end
  local delivery = delivery_prefix .. member:sub(12)
  local fields = hash_fields(delivery, 'subscription', 'status')
  local is_wanted = fields[1] and (status == '' or (fields[2] or 'PENDING') == status)
  if fields.err or is_wanted then
    if (#reply - 3) / 2 == tonumber(rows) then return reply end
    reply[#reply + 1], reply[#reply + 2] = member:sub(12), fields.err and {} or redis.call('HGETALL', delivery)
  end
  reply[2], reply[3] = at_ms, member
end
if #found < 2 * STEP then reply[2], reply[3] = '', '' end
return reply
