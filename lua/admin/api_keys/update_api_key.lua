#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/api_keys.rs.
Changes an API key that is still good; its next use is judged by what it is then.

KEYS[1]   write  api_key      hash    apikey:<key_id>
KEYS[2]   write  tenant_key   hash    tenant:<tenant>
KEYS[3]   write  event_log    stream  events:<tenant>:<day>
KEYS[4]   write  outbox       stream  outbox
KEYS[5]   write  days         zset    days
KEYS[6]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[7]   write  chain        hash    chain:<tenant>
KEYS[8]   write  unsealed     set     unsealed
KEYS[9]   write  short_lived  hash    short_lived:<tenant>
KEYS[10]  write  idempotency  hash    idem:<tenant>:<digest>  (if digest)

ARGV[1]                day           yyyymmdd
ARGV[2]                day_start_ms  int64
ARGV[3]                payload_hash  text
ARGV[4]                context       text            The request cause, lines of name and value.
ARGV[5]                tenant        text            The owner of the API key.
ARGV[6]                key_id        text
ARGV[7]                fields        n, then n more  A field of the record, then = and its value, or '' to remove it.
ARGV[fields_to + 1..]  audit         to the end      Names and values of the audit entry.

Replies, the first that applies:
  clock now_ms | idempotency_mismatch | replayed outcome… | tenant_unreadable | tenant_closed | api_key_not_found |
  key_ended status | updated record
Writes:
  On updated: the API key, the audit entry; the event where the key may do more, less or elsewhere. Otherwise nothing.
]]
local api_key, tenant_key, event_log, outbox, days, audit_log, chain, unsealed, short_lived, idempotency
  = unpack(KEYS)
local day, day_start_ms, payload_hash, context, tenant, key_id = unpack(ARGV, 1, 6)
local fields_from = 8
local fields_to = 7 + ARGV[7]
local audit_from = fields_to + 1
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, access/idempotency

-- Whether two lists of words differ in more than their order.
local function differs(before, after)
  local left = {}
  for word in (before or ''):gmatch('%S+') do left[word] = true end
  local known = {}
  for word in after:gmatch('%S+') do
    if not (left[word] or known[word]) then return true end
    known[word], left[word] = true, nil
  end
  return next(left) ~= nil
end

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local replay = idempotency_reply(idempotency, payload_hash)
if replay then return replay end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
local status, owner, expires_at_ms, permissions, scope_filter =
  unpack(redis.call('HMGET', api_key, 'status', 'tenant', 'expires_at_ms', 'permissions', 'scope_filter'))
if not status or owner ~= tenant then return {'api_key_not_found'} end
if status == 'ACTIVE' and expires_at_ms and now >= tonumber(expires_at_ms) then status = 'EXPIRED' end
if status ~= 'ACTIVE' then return {'key_ended', status} end
local set, removed, changed = {}, {}, false
local before = {permissions = permissions, scope_filter = scope_filter}
for i = fields_from, fields_to, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if value == '' then removed[#removed + 1] = field else set[#set + 1], set[#set + 2] = field, value:sub(2) end
  if before[field] ~= nil and differs(before[field], value:sub(2)) then changed = true end
end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
if #set > 0 then redis.call('HSET', api_key, unpack(set)) end
if #removed > 0 then redis.call('HDEL', api_key, unpack(removed)) end
if changed then
  local name, granted = unpack(redis.call('HMGET', api_key, 'name', 'permissions'))
  local events = events_new(event_log, outbox, tenant, day, now, context)
  event_append(events, 'api_key.permissions_changed', nil, {'data.key_id', key_id, 'data.key_name', name or '',
    'data.permissions', granted or ''})
  events_point(events)
end
local reply = {'updated', unpack(redis.call('HGETALL', api_key))}
audit_append(now, {unpack(ARGV, audit_from)})
day_register(days, tenant_key, settings, tenant, day, now)
idempotency_keep(idempotency, payload_hash, reply, now, short_lived)
return reply
