#!lua flags=no-writes,allow-oom
--[[
registered: whether retention knows of the days of a tenant that have records.
KEYS[1] days zset    KEYS[2..] for each day: its reservations zset, its posts zset
ARGV members of days, in the order of the keys
Reply: registered, then the members of the days that have records and are not registered
]]
local reply = {'registered'}
for i, member in ipairs(ARGV) do
  if not redis.call('ZSCORE', KEYS[1], member) and redis.call('EXISTS', KEYS[2 * i], KEYS[2 * i + 1]) > 0 then
    reply[#reply + 1] = member
  end
end
return reply
