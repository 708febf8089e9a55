#!lua flags=no-writes,allow-oom
--[[
list_deliveries: the deliveries to a subscription, newest first.
KEYS[1] api_key  hash    KEYS[2] tenant  hash  of the key    KEYS[3] webhook  hash    KEYS[4] deliveries  zset  by ms
ARGV[1] key_hash, '' for the admin key    ARGV[4] from_ms or -inf    ARGV[7] rows, at most
ARGV[2] tenant of the key, or ''          ARGV[5] to_ms or +inf      ARGV[8] status, or ''
ARGV[3] delivery_prefix                   ARGV[6] after_id: of the score to_ms, what stands before it was seen; or ''
Keys built: the deliveries' records.
Reply, first that holds: unauthorized why | forbidden permission | not_found
  | listed last_ms last_id, then id and record…; last: up to which was looked, empty where the list ends;
  the record of a key that holds no hash is empty
]]
-- @include base/time, access/access, access/scope_filter, access/admin_access, base/hash_fields
local key_hash, tenant, delivery_prefix, from_ms, to_ms, after_id, rows, status = unpack(ARGV)
local refusal, why = admin_access_refusal(KEYS[1], KEYS[2], key_hash, tenant, 'webhooks:read', '', now_ms())
if refusal then return {refusal, why} end
local owner = redis.call('HGET', KEYS[3], 'tenant')
if not owner or (key_hash ~= '' and owner ~= tenant) then return {'not_found'} end
local LOOKED_AT_MAX, STEP = 5000, 200
local reply, looked_at = {'listed', '', ''}, 0
while true do
  local found = redis.call('ZREVRANGEBYSCORE', KEYS[4], to_ms, from_ms, 'WITHSCORES', 'LIMIT', looked_at, STEP)
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
