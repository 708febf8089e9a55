#!lua flags=no-writes,allow-oom
--[[
records: records of one tenant as they stand at one moment, each with its place in the indexes of what is due.
KEYS[1] due  zset    KEYS[2] due_tenants  zset    KEYS[3] quarantine  zset
Keys built: the records, read only.
ARGV[1] tenant    ARGV[2] record_prefix    ARGV[3..] ids
Reply: records now_ms first_due_ms|'' tenant_due_ms|'', then for each id an array: due_ms|false quarantined_ms|false and
the fields, each false where it is missing: status tenant unit estimate scope_path budgeted charged created_at_ms
finalized_at_ms expired_at_ms expires_at_ms grace_ms debt.1 … debt.6; only the first two where the key holds no hash.
]]
-- @include base/time, base/hash_fields
local due, due_tenants, quarantine = unpack(KEYS)
local tenant, prefix = unpack(ARGV, 1, 2)
local first_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local reply = {'records', now_ms(), first_due or '', redis.call('ZSCORE', due_tenants, tenant) or ''}
for i = 3, #ARGV do
  local id = ARGV[i]
  local row = {redis.call('ZSCORE', due, id), redis.call('ZSCORE', quarantine, id)}
  local fields = hash_fields(prefix .. id, 'status', 'tenant', 'unit', 'estimate', 'scope_path', 'budgeted',
    'charged', 'created_at_ms', 'finalized_at_ms', 'expired_at_ms', 'expires_at_ms', 'grace_ms', 'debt.1', 'debt.2',
    'debt.3', 'debt.4', 'debt.5', 'debt.6')
  if not fields.err then
    for field = 1, #fields do row[2 + field] = fields[field] end
  end
  reply[2 + i] = row
end
return reply
