#!lua
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/traffic.rs.
Counts what a replica saw lately of some tenants of a partition. burning: those of whom burn rates are watched.

KEYS[1]    read   thresholds   hash  thresholds
KEYS[2]    write  traffic_due  zset  traffic
KEYS[3..]  write  traffic      hash  traffic:<tenant>
built      read                hash  tenant:<tenant>

ARGV[1]    tenant_prefix  prefix tenant:
ARGV[2..]  tallies        to the end
    For each of the keys: its tenant; decided, denied, ended and expired, tried and refused.

Replies, the first that applies:
  counted burning
Writes:
  The counts of the tenants; in the index those of whom something is unusual.
]]
local thresholds, traffic_due = unpack(KEYS, 1, 2)
local tenant_prefix = ARGV[1]
local traffic_from = 3
local tallies_from = 2
-- End of the signature.
-- @include base/time, base/hash_fields, detect/traffic
local now = now_ms()
local counted, reply = {}, {'counted'}
for i = traffic_from, #KEYS do
  local at = tallies_from + 7 * (i - traffic_from)
  local tenant, added = ARGV[at], {}
  for what = 1, 6 do added[what] = tonumber(ARGV[at + what]) end
  local watched
  if tenant == '__system__' then
    watched = redis.call('HGET', thresholds, 'union')
  else
    watched = hash_fields(tenant_prefix .. tenant, 'watched_rates')[1]
  end
  if (watched or ''):find('burn_rate:', 1, true) then reply[#reply + 1] = tenant end
  counted[#counted + 1] = {traffic_read(KEYS[i], now, watched), tenant, added}
end
redis.call('ZCARD', traffic_due)

-- Effects: none can fail.
for _, one in ipairs(counted) do traffic_add(one[1], traffic_due, one[2], now, one[3]) end
return reply
