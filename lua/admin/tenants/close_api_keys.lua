#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/closing.rs.
Takes a step of a tenant's close: revokes up to a number of its API keys. One that has expired or was revoked before
stays as it is.

none: there is no close to resume.

KEYS[1]   read   lease        hash    lease
KEYS[2]   read   list         zset    apikeys:<tenant>
KEYS[3]   write  tenant_key   hash    tenant:<tenant>
KEYS[4]   write  closing_key  hash    closing:<tenant>
KEYS[5]   write  event_log    stream  events:<tenant>:<day>
KEYS[6]   write  outbox       stream  outbox
KEYS[7]   write  days         zset    days
KEYS[8]   write  audit_log    stream  audit:<tenant>:<day>
KEYS[9]   write  chain        hash    chain:<tenant>
KEYS[10]  write  unsealed     set     unsealed
built     write               hash    apikey:<key_id>

ARGV[1]  api_key_prefix  prefix apikey:
ARGV[2]  day             yyyymmdd
ARGV[3]  day_start_ms    int64
ARGV[4]  tenant          text
ARGV[5]  fencing_token   int64 or ''     Of the caller's lease, '' for a request.
ARGV[6]  rows            int64           How many at most.

Replies, the first that applies:
  clock now_ms | fenced | none | at phase
Writes:
  On at: the intent; what it ends, each with its events and audit entry.
]]
local lease, list, tenant_key, closing_key, event_log, outbox, days, audit_log, chain, unsealed = unpack(KEYS)
local api_key_prefix, day, day_start_ms, tenant, fencing_token, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/tenant, log/days, log/events, log/audit, base/hash_fields
-- @include admin/closing, admin/closing_child
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if fencing_token ~= '' and redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end
local closing, ends = closing_read(closing_key, 'api_keys')
if not closing then return ends end
local refused, settings = tenant_refusal(tenant_key)
if refused ~= 'tenant_closed' then return {'none'} end

-- Reads: every key.
local ids = redis.call('ZRANGE', list, closing.offset, closing.offset + rows - 1)
local open = {}
for _, id in ipairs(ids) do
  local record = hash_fields(api_key_prefix .. id, 'status', 'name', 'expires_at_ms')
  if record.err then
    closing_failed(closing, 'api_key:' .. id)
  elseif record[1] == 'ACTIVE' and not (record[3] and now >= tonumber(record[3])) then
    open[#open + 1] = {id = id, name = record[2]}
  end
end
local audit_append = audit_trail(tenant, audit_log, chain, unsealed, days, event_log, outbox)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, closing.context)
for _, key in ipairs(open) do
  redis.call('HSET', api_key_prefix .. key.id, 'status', 'REVOKED', 'revoked_at_ms', now,
    'revoked_reason', 'tenant_closed')
  local facts = {'key_id', key.id, 'prior_status', 'ACTIVE', 'new_status', 'REVOKED'}
  if key.name then facts[7], facts[8] = 'name', key.name end
  event_append(events, 'api_key.revoked_via_tenant_cascade', nil, closing_data(facts))
  closing_audit(closing, audit_append, now, 'api_key.revoked_via_tenant_cascade', 'api_key', key.id, facts)
end
events_point(events)
if #open > 0 then day_register(days, tenant_key, settings, tenant, day, now) end
return closing_advance(closing, 'api_keys', #ids, rows, 'end', 'api_keys_revoked', #open)
