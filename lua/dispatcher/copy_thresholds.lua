#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/thresholds.rs.
Brings the thresholds that the operator's subscriptions watch to the tenants of one partition, some at a time. Repeating
it is harmless, and an older version changes nothing.

KEYS[1]  read   tenants     zset  tenants
KEYS[2]  write  thresholds  hash  thresholds
built    read               hash  watch:<owner>
built    write              hash  tenant:<tenant>

ARGV[1]  watch_prefix   prefix watch:
ARGV[2]  tenant_prefix  prefix tenant:
ARGV[3]  version        int64
ARGV[4]  union          text
    Thresholds in millionths, ascending, then limits of rates; blanks between, or ''.
ARGV[5]  rows           int64           Tenants at a time.

Replies, the first that applies:
  more | copied
Writes:
  The thresholds of the partition and of its tenants.
]]
local tenants, thresholds = unpack(KEYS)
local watch_prefix, tenant_prefix, version, union, rows = unpack(ARGV)
-- End of the signature.
-- @include base/time, ledger/thresholds, admin/watch
version, rows = tonumber(version), tonumber(rows)
local stored = redis.call('HMGET', thresholds, 'version', 'pending', 'after', 'skipped')
local copied, pending, after = tonumber(stored[1] or '0'), tonumber(stored[2] or '0'), stored[3] or ''
if version <= copied or version < pending then return {'copied'} end
local from = version == pending and after ~= '' and '(' .. after or '-'
local skipped = version == pending and stored[4] == '1'
local page = redis.call('ZRANGEBYLEX', tenants, from, '+', 'LIMIT', 0, rows)

-- Tenants whose record is damaged are left out, so that they do not stop the others.
local records = {}
for _, tenant in ipairs(page) do
  local tenant_key, watch = tenant_prefix .. tenant, watch_prefix .. tenant
  local watched = redis.call('TYPE', watch).ok
  if redis.call('TYPE', tenant_key).ok == 'hash' and (watched == 'hash' or watched == 'none') then
    records[#records + 1] = {tenant_key, watch}
  else
    skipped = true
  end
end

-- Effects: none can fail. A tenant that is created meanwhile finds the union already.
redis.call('HSET', thresholds, 'union', union)
for _, record in ipairs(records) do watch_apply(record[1], record[2], union) end
if #page < rows then
  -- Without the version, the next pass begins again: a tenant that was repaired gets the union then.
  if not skipped then redis.call('HSET', thresholds, 'version', version) end
  redis.call('HDEL', thresholds, 'pending', 'after', 'skipped')
  return {'copied'}
end
redis.call('HSET', thresholds, 'pending', version, 'after', page[#page], 'skipped', skipped and 1 or 0)
return {'more'}
