#!lua flags=allow-oom
--[[
bulk_settle: keeps what became of rows of a bulk action, where that is not known yet: of closes that have gone as far as
they go, and of rows that could not be done.
KEYS[1] bulk_rows  hash
ARGV[1..] ids and outcomes
Reply: settled, then the outcome of each, which may be an earlier one
]]
-- @include admin/bulk
local rows = KEYS[1]
local reply, outcomes = {'settled'}, {}
for i = 1, #ARGV, 2 do
  local known = redis.call('HGET', rows, ARGV[i])
  if not known or known:find('^closing') then
    known = ARGV[i + 1]
    outcomes[#outcomes + 1], outcomes[#outcomes + 2] = ARGV[i], known
  end
  reply[#reply + 1] = known
end

-- Effects: none can fail.
bulk_rows_keep(rows, outcomes)
return reply
