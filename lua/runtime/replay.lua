#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/replay.rs.
Replays a create, a usage event, a decision or a dry run while there is no memory for new ones.

KEYS[1]  read  api_key  hash  apikey:<key_id>
KEYS[2]  read  record   hash  rsv:<reservation_id>  (if reservation_id)
KEYS[2]  read  record   hash  usage_event:<event_id>  (if event_id)
KEYS[2]  read  record   hash  decision:<decision_id>  (if decision_id)

ARGV[1]  key_hash      text  Of the API key; empty for the admin key.
ARGV[2]  tenant        text
ARGV[3]  payload_hash  text
ARGV[4]  scope_path    text
ARGV[5]  permission    text

Replies, the first that applies:
  unauthorized why | forbidden permission | scope_forbidden filter | idempotency_mismatch | replayed now_ms record |
  memory_full
Writes:
  Nothing.
]]
local api_key, record = unpack(KEYS)
local key_hash, tenant, payload_hash, scope_path, permission = unpack(ARGV)
-- End of the signature.
-- @include base/time, access/access, access/scope_filter, ledger/reservation_replay

local now = now_ms()
local refusal, why = access_refusal(api_key, key_hash, tenant, permission, now)
if refusal then return {refusal, why} end
if not scope_filter_allows(why, scope_path) then return {'scope_forbidden', why} end
local stored_hash = redis.call('HGET', record, 'create_hash')
if stored_hash and stored_hash ~= payload_hash then return {'idempotency_mismatch'} end
if stored_hash then return creation_replay(record, now) end
return {'memory_full'}
