#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/bulk_rows.rs.
Keeps the outcomes of rows of a bulk action that have none: of closes that went as far as they could, and of rows that
could not be done. Returns the outcome of each, which may be an earlier one.

KEYS[1]  write  bulk_rows        hash  bulkrow:<claim_id>
KEYS[2]  write  idempotency_due  zset  idemdue

ARGV[1..]  rows  to the end  Ids and outcomes.

Replies, the first that applies:
  done outcomes
Writes:
  On done: the outcomes.
]]
local bulk_rows, idempotency_due = unpack(KEYS)
local rows_from = 1
-- End of the signature.
-- @include base/time, admin/bulk
local reply, outcomes = {'done'}, {}
for i = rows_from, #ARGV, 2 do
  local known = redis.call('HGET', bulk_rows, ARGV[i])
  if not known or known:find('^closing') then
    known = ARGV[i + 1]
    outcomes[#outcomes + 1], outcomes[#outcomes + 2] = ARGV[i], known
  end
  reply[#reply + 1] = known
end
redis.call('ZCARD', idempotency_due)

-- Effects: none can fail.
bulk_rows_keep(bulk_rows, outcomes, idempotency_due, now_ms())
return reply
