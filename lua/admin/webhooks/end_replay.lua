#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/webhook_replays.rs.
Gives a claim back of which nothing came.

KEYS[1]  write  replay_lock  string  replaylock:<subscription_id>

ARGV[1]  token  text

Replies, the first that applies:
  lost | ended
Writes:
  On ended: the lock goes.
]]
local replay_lock = KEYS[1]
local token = ARGV[1]
-- End of the signature.
if redis.call('GET', replay_lock) ~= token then return {'lost'} end

-- Effects: none can fail.
redis.call('DEL', replay_lock)
return {'ended'}
