#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/tools/verify.rs.
Reads records of one tenant at one moment, each with its place in the indexes of what is due.

A row: due time, expiry in the index of other graces, time of quarantine, and the fields status tenant unit estimate
scope_path budgeted charged created_at_ms finalized_at_ms expired_at_ms expires_at_ms grace_ms debt.1 … debt.6
refunds; only the first three where the key holds no hash.

KEYS[1]  read  due           zset  due:<tenant>
KEYS[2]  read  other_graces  zset  due:<tenant>:other_graces
KEYS[3]  read  due_tenants   zset  due
KEYS[4]  read  quarantine    zset  quarantine
built    read                hash  rsv:<reservation_id>
built    read                hash  usage_event:<event_id>

ARGV[1]    tenant         text
ARGV[2]    record_prefix  text        Of reservations or of usage events.
ARGV[3..]  ids            to the end

Replies, the first that applies:
  records now_ms first_due_ms tenant_due_ms rows
Writes:
  Nothing.
]]
local due, other_graces, due_tenants, quarantine = unpack(KEYS)
local tenant, record_prefix = unpack(ARGV, 1, 2)
local ids_from = 3
-- End of the signature.
-- @include base/time, base/hash_fields
local first_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local reply = {'records', now_ms(), first_due or '', redis.call('ZSCORE', due_tenants, tenant) or ''}
for i = ids_from, #ARGV do
  local id = ARGV[i]
  local row = {redis.call('ZSCORE', due, id), redis.call('ZSCORE', other_graces, id), redis.call('ZSCORE', quarantine, id)}
  local fields = hash_fields(record_prefix .. id, 'status', 'tenant', 'unit', 'estimate', 'scope_path', 'budgeted',
    'charged', 'created_at_ms', 'finalized_at_ms', 'expired_at_ms', 'expires_at_ms', 'grace_ms', 'debt.1', 'debt.2',
    'debt.3', 'debt.4', 'debt.5', 'debt.6', 'refunds')
  if not fields.err then
    for field = 1, #fields do row[3 + field] = fields[field] end
  end
  reply[#reply + 1] = row
end
return reply
