#!lua flags=allow-oom
--[[
close_api_keys: a step of a tenant's close: revokes up to a number of its API keys, each with its event and its audit
entry. One that has expired or was revoked before stays as it is.
KEYS[1] tenant    hash    KEYS[4] event_log  stream    KEYS[7] audit_log  stream  of the day
KEYS[2] closing   hash    KEYS[5] outbox     stream    KEYS[8] chain      hash
KEYS[3] api_keys  zset    KEYS[6] days       zset      KEYS[9] unsealed   set
KEYS[10] lease   hash
Keys built: the API keys that the list names, read before the first write.
ARGV[1] tenant          ARGV[3] day_start_ms                       ARGV[5] rows at most
ARGV[2] day yyyymmdd    ARGV[4] fencing_token, '' for a request    ARGV[6] api_key_prefix
Reply: clock now_ms | fenced | none | at phase
none: there is no close to go on with.
]]
-- @include base/time, access/tenant, base/days, log/events, log/audit, base/hash_fields, admin/closing_check
-- @include admin/closing, admin/closing_child
local tenant_key, closing_key, list, event_log, outbox, days, audit_log, chain, unsealed, lease = unpack(KEYS)
local tenant, day, day_start_ms, token, rows, api_key_prefix = unpack(ARGV)
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
if token ~= '' and redis.call('HGET', lease, 'token') ~= token then return {'fenced'} end
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
