#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/tools/verify.rs.
Finds the days of a tenant that have records and that retention does not know.

KEYS[1]    read  days     zset  days
KEYS[2..]  read  indexes  zset  rsvs:<tenant>:<day> | usage_events:<tenant>:<day>

ARGV[1..]  members  to the end  Of days, one for each two keys.

Replies, the first that applies:
  registered missing
Writes:
  Nothing.
]]
local days = KEYS[1]
local indexes_from = 2
local members_from = 1
-- End of the signature.
local reply = {'registered'}
for i = members_from, #ARGV do
  local member, first = ARGV[i], indexes_from + 2 * (i - members_from)
  if not redis.call('ZSCORE', days, member) and redis.call('EXISTS', KEYS[first], KEYS[first + 1]) > 0 then
    reply[#reply + 1] = member
  end
end
return reply
