#!lua flags=allow-oom
--[[
release: ends an active reservation without a charge; its hold returns to the budgets.
KEYS[1] api_key       hash    KEYS[4] due        zset      KEYS[7] days       zset
KEYS[2] tenant        hash    KEYS[5] event_log  stream    KEYS[8] audit_log  stream  of the day
KEYS[3] reservation   hash    KEYS[6] outbox     stream    KEYS[9] chain      hash
KEYS[10] unsealed     set, where there is an audit entry
KEYS[2] and [4..9] are the owner's. Keys built: the budgets that the reservation names, read before the first write.
ARGV[1] key_hash              ARGV[5] payload_hash         ARGV[9]  context of events, lines of name and value
ARGV[2] tenant, of the key;   ARGV[6] key_digest  of the   ARGV[10] owner
        '' for the admin key          idempotency key      ARGV[11] reservation_id
ARGV[3] day yyyymmdd          ARGV[7] budget_prefix        ARGV[12] n, then n names and values that the record keeps,
ARGV[4] day_start_ms          ARGV[8] permission                    then those of the audit entry of an admin release
Reply, first that holds: unauthorized why | forbidden permission | clock now_ms | not_found | foreign | scope_forbidden
  | idempotency_mismatch | replayed now_ms record | tenant_unreadable | tenant_closed | expired | finalized status
  | corrupt what | released now_ms unit estimate depths scope_path snapshot…
Writes on released: the record, its due time, the budgets, events, the audit entry. Else nothing.
]]
-- @include base/time, access/access, access/scope_filter, access/tenant, base/days, base/int64, ledger/thresholds
-- @include ledger/budgets, ledger/budgets_of_record
-- @include ledger/ledger_hold, ledger/ledger_quiet, ledger/reservation
local api_key, tenant_key, reservation, due, event_log, outbox, days, audit_log, chain, unsealed = unpack(KEYS)
local key_hash, tenant, day, day_start_ms, payload_hash, key_digest, budget_prefix, permission, context, owner,
  reservation_id = unpack(ARGV, 1, 11)
local kept_end = 12 + ARGV[12]

-- Refusals: read only.
local now = now_ms()
local refusal, why
if tenant ~= '' then refusal, why = access_refusal(api_key, key_hash, tenant, permission, now) end
if refusal then return {refusal, why} end
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local record = reservation_read(reservation, 'unit', 'estimate', 'budgeted', 'expires_at_ms', 'grace_ms',
  'action_kind')
local refused = reservation_refusal(record, tenant, why)
if refused then return {refused} end
local status, _, scope_path, unit, estimate_text, depths, expires_at_ms, grace_ms, action_kind = unpack(record)
if status == 'RELEASED' then
  -- @include ledger/reservation_replay
  local replay = reservation_replay(reservation, key_digest, payload_hash, now)
  if replay then return replay end
end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused and tenant_refused ~= 'tenant_suspended' then return {tenant_refused} end
if status == 'EXPIRED' then return {'expired'} end
if status ~= 'ACTIVE' then return {'finalized', status} end
local estimate = int64(estimate_text)
if not (expires_at_ms and grace_ms and estimate and depths and unit) then return {'corrupt', reservation} end
if now > expires_at_ms + grace_ms then return {'expired'} end
local budgets, corrupt = budgets_of_record(budget_prefix, unit, scope_path, depths)
if not budgets then return {'corrupt', corrupt} end
local thresholds, quiet, minus_estimate = thresholds_parse(settings[TENANT_THRESHOLDS]), true, int64_sub(0, estimate)
local reply, kept = {'released', now, unit, estimate_text, depths, scope_path}, {unpack(ARGV, 13, kept_end)}
for i = 1, #budgets do
  local budget = budgets[i]
  if not ledger_move_hold(budget, estimate, minus_estimate) then return {'corrupt', budget.key} end
  quiet = quiet and ledger_quiet(budget, thresholds)
  reply[6 + i] = budget_snapshot(budget)
  kept[#kept + 1], kept[#kept + 2] = 'release.' .. budget.depth, reply[6 + i]
end
if not quiet then
  -- @include ledger/ledgers_untellable
  local unsound = ledgers_untellable(budgets, event_log, outbox)
  if unsound then return {'corrupt', unsound} end
end
local audit_append = nil
if tenant == '' then
  -- @include log/audit
  audit_append = audit_trail(owner, audit_log, chain, unsealed, days)
end

-- Effects. First the index: it has not been read, and one of another type raises before anything returns.
redis.call('ZREM', due, reservation_id)
redis.call('HSET', reservation, 'status', 'RELEASED', 'finalized_at_ms', int64_text(now), 'finish',
  key_digest .. ' ' .. payload_hash, unpack(kept))
for i = 1, #budgets do ledger_write_hold(budgets[i]) end
local told = tenant == ''
if not quiet then
  -- @include log/events, ledger/thresholds_crossed, ledger/ledger_events
  local events = events_new(event_log, outbox, owner, day, now, context, action_kind or '*')
  for _, budget in ipairs(budgets) do
    ledger_events(events, budget, unit, budget_scope(scope_path, budget.depth), thresholds, false)
  end
  events_point(events)
  told = told or events.count > 0
end
if audit_append then audit_append(now, {unpack(ARGV, kept_end + 1)}) end
if told then day_register(days, tenant_key, settings, owner, day, now) end
return reply
