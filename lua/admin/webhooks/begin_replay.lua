#!lua
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_replays.rs.
Claims the right to choose events for a replay of a subscription. The claim lapses, should the replica die.

KEYS[1]  write  replay_lock  string  replaylock:<subscription_id>

ARGV[1]  token     text
ARGV[2]  claim_ms  int64

Replies, the first that applies:
  locked | claimed
Writes:
  On claimed: the lock.
]]
local replay_lock = KEYS[1]
local token, claim_ms = unpack(ARGV)
-- End of the signature.
if redis.call('EXISTS', replay_lock) == 1 then return {'locked'} end

-- Effects: none can fail.
redis.call('SET', replay_lock, token, 'PX', claim_ms)
return {'claimed'}
