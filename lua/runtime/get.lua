#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/read.rs.
Reads fields of one reservation or usage event.

KEYS[1]  read  api_key  hash  apikey:<key_id>
KEYS[2]  read  record   hash  rsv:<reservation_id>  (if reservation_id)
KEYS[2]  read  record   hash  usage_event:<event_id>  (if event_id)

ARGV[1]    key_hash  text        Of the API key; empty for the admin key.
ARGV[2]    tenant    text        Empty for the admin key.
ARGV[3..]  names     to the end

Replies, the first that applies:
  unauthorized why | forbidden permission | not_found | foreign | scope_forbidden filter | found now_ms fields
Writes:
  Nothing.
]]
local api_key, record = unpack(KEYS)
local key_hash, tenant = unpack(ARGV, 1, 2)
local names_from = 3
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, ledger/reservation
local now = now_ms()
local refusal, why
if tenant ~= '' then refusal, why = access_refusal(api_key, key_hash, tenant, 'reservations:list', now) end
if refusal then return {refusal, why} end
local fields = reservation_read(record, unpack(ARGV, names_from))
local refused, filter = reservation_refusal(fields, tenant, why)
if refused then return {refused, filter} end
return {'found', now, {unpack(fields, 4, #ARGV + 1)}}
