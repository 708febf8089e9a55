#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/dispatcher/retention.rs.
Deletes entries that keep a retry from moving money again, as far as they are due at a time.

KEYS[1]    read   lease            hash  lease
KEYS[2]    write  idempotency_due  zset  idemdue
KEYS[3..]  write  entries          hash  idem:<tenant>:<digest> | bulk:<tenant>:<digest> | bulkrow:<claim_id>

ARGV[1]  due_until_ms   int64
ARGV[2]  fencing_token  int64

Replies, the first that applies:
  fenced | dropped count
Writes:
  On dropped: the entries that are due, and their places in the index.
]]
local lease, idempotency_due = unpack(KEYS, 1, 2)
local due_until_ms, fencing_token = unpack(ARGV)
local entries_from = 3
-- End of the signature.
local due = {}
for i = entries_from, #KEYS do
  local at_ms = redis.call('ZSCORE', idempotency_due, KEYS[i])
  if at_ms and tonumber(at_ms) <= tonumber(due_until_ms) then due[#due + 1] = KEYS[i] end
end
if redis.call('HGET', lease, 'token') ~= fencing_token then return {'fenced'} end

-- Effects: none can fail.
for _, key in ipairs(due) do
  redis.call('UNLINK', key)
  redis.call('ZREM', idempotency_due, key)
end
return {'dropped', #due}
