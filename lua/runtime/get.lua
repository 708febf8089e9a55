#!lua flags=no-writes,allow-oom
--[[
get: one reservation as it is recorded.
KEYS[1] api_key  hash    KEYS[2] reservation  hash
ARGV[1] key_hash    ARGV[2] tenant, '' for the admin key    ARGV[3..] fields
Reply, first that holds: unauthorized why | forbidden permission | not_found | foreign | scope_forbidden
  | found now_ms, then an array of the fields, each false where it is missing
]]
-- @include base/time, access/access, access/scope_filter, ledger/reservation
local now = now_ms()
local refusal, why
if ARGV[2] ~= '' then refusal, why = access_refusal(KEYS[1], ARGV[1], ARGV[2], 'reservations:list', now) end
if refusal then return {refusal, why} end
local record = reservation_read(KEYS[2], unpack(ARGV, 3))
local refused = reservation_refusal(record, ARGV[2], why)
if refused then return {refused} end
return {'found', now, {unpack(record, 4, #ARGV + 1)}}
