#!lua flags=no-writes,allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/admin/mod.rs.
Reads one record of the admin plane.

KEYS[1]  read  record  hash  tenant:<tenant>  (if tenant)
KEYS[1]  read  record  hash  policy:<policy_id>  (if policy_id)

Replies, the first that applies:
  not_found | found now_ms record
Writes:
  Nothing.
]]
local record = KEYS[1]
-- End of the signature.
-- @include base/time
local fields = redis.call('HGETALL', record)
if #fields == 0 then return {'not_found'} end
return {'found', now_ms(), unpack(fields)}
