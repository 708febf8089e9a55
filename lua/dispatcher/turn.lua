#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/runtime/turn.rs.
Turns ledgers of one tenant: writes the results that were computed from their records, each if its record is still the
same. So a turn happens once, whoever comes first.

The entries of ledgers that are gone or closed leave the index; ledgers whose record has changed are left alone.

KEYS[1]    write  tenant_key             hash    tenant:<tenant>
KEYS[2]    write  event_log              stream  events:<tenant>:<day>
KEYS[3]    write  outbox                 stream  outbox
KEYS[4]    write  days                   zset    days
KEYS[5]    write  over_limit_or_in_debt  zset    over_limit_or_in_debt
KEYS[6]    write  turns                  zset    turns
KEYS[7..]  write  budgets                hash    budget:<tenant>:<unit>:<scope>

ARGV[1]    day           yyyymmdd
ARGV[2]    day_start_ms  int64
ARGV[3]    tenant        text
ARGV[4]    context       text        The request cause, lines of name and value.
ARGV[5..]  words         to the end
    Of each ledger: scope, unit, turns_at_ms, allocated, spent, debt; 1 if a period has begun; the number of words in
    names and values of the fields that it was computed from, and these; the same of the fields that it sets; the number
    of events, and of each its type, the number of words in names and values of its data, and these.

Replies, the first that applies:
  clock now_ms | tenant_unreadable | turned now_ms count corrupt
Writes:
  On turned: the ledgers, their bases, their places in the index of those that turn and of those over their limit or in
  debt, events. Otherwise nothing.
]]
local tenant_key, event_log, outbox, days, over_limit_or_in_debt, turns = unpack(KEYS, 1, 6)
local day, day_start_ms, tenant, context = unpack(ARGV, 1, 4)
local budgets_from = 7
local words_from = 5
-- End of the signature.
-- @include base/time, access/tenant, log/days, base/int64, base/int64_wrapping, ledger/thresholds, ledger/budgets
-- @include ledger/thresholds_crossed, ledger/funding, ledger/over_limit_or_in_debt, log/events, base/hash_fields, base/slot

-- Refusals: read only.
local now = now_ms()
if not time_in_day(now, day_start_ms) then return {'clock', now} end
local tenant_refused, settings = tenant_refusal(tenant_key)
if tenant_refused == 'tenant_unreadable' then return {tenant_refused} end

local at = words_from - 1
local function next_word()
  at = at + 1
  return ARGV[at]
end
local function next_words()
  local from = at + 2
  at = from + ARGV[at + 1] - 1
  return {unpack(ARGV, from, at)}
end

-- Returns the turn of the next ledger, as it was computed.
local function turn_read()
  local turn = {scope = next_word(), unit = next_word(), turns_at_ms = next_word()}
  turn.allocated, turn.spent, turn.debt = int64(next_word()), int64(next_word()), int64(next_word())
  turn.renews = next_word() == '1'
  turn.sources, turn.fields, turn.events = next_words(), next_words(), {}
  for _ = 1, next_word() do turn.events[#turn.events + 1] = {next_word(), next_words()} end
  return turn
end

-- Returns 'gone', 'changed' since the turn was computed, 'corrupt', or 'sound' with the ledger moved in memory.
local function turn_judge(key, turn)
  if redis.call('TYPE', key).ok ~= 'hash' then return 'gone' end
  local budget, names = budget_read(key, 0), {}
  if budget == nil then return 'corrupt' end
  if not budget or budget.status == 'CLOSED' or tenant_refused == 'tenant_closed' then return 'gone' end
  for i = 1, #turn.sources, 2 do names[#names + 1] = turn.sources[i] end
  for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do
    if (value or '') ~= turn.sources[2 * i] then return 'changed' end
  end
  local bases = redis.call('HMGET', key, 'base_spent', 'base_debt')
  budget.base_spent, budget.base_debt = int64(bases[1] or '0'), int64(bases[2] or '0')
  local is_moved = budget.base_spent and budget.base_debt and funding_move(budget, turn.allocated, turn.spent, turn.debt)
  if is_moved and not turn.renews then budget.over = budget.before.over end
  return is_moved and 'sound' or 'corrupt', budget
end

local gone, sound, corrupt = {}, {}, {}
for i = budgets_from, #KEYS do
  local turn = turn_read()
  local state, budget = turn_judge(KEYS[i], turn)
  turn.budget, turn.entry = budget, tenant .. ' ' .. turn.unit .. ' ' .. turn.scope
  if state == 'sound' then sound[#sound + 1] = turn end
  if state == 'gone' then gone[#gone + 1] = turn.entry end
  if state == 'corrupt' then corrupt[#corrupt + 1] = turn.entry end
end
-- Keys that are written without a read: one of the wrong type raises here.
for _, index in ipairs({days, over_limit_or_in_debt, turns}) do redis.call('ZCARD', index) end
redis.call('XLEN', event_log)
redis.call('XLEN', outbox)
slot_check(turns)

-- Effects: none can fail.
local events = events_new(event_log, outbox, tenant, day, now, context)
local thresholds = thresholds_parse(settings[TENANT_THRESHOLDS])
for _, turn in ipairs(sound) do
  local budget, before = turn.budget, turn.budget.before
  if budget.debt ~= before.debt or budget.over ~= before.over then
    over_limit_or_in_debt_write(over_limit_or_in_debt, turn.entry, budget.debt, budget.over)
  end
  funding_write(budget, budget.base_spent, budget.base_debt, 'turns_at_ms', turn.turns_at_ms, unpack(turn.fields))
  for _, event in ipairs(turn.events) do event_append(events, event[1], turn.scope, event[2]) end
  if budget.allocated ~= before.allocated or budget.spent ~= before.spent or budget.debt ~= before.debt then
    funding_consequences(events, budget, turn.unit, turn.scope, thresholds, 'rising')
  end
  if (tonumber(turn.turns_at_ms) or 0) > 0 then
    redis.call('ZADD', turns, turn.turns_at_ms, turn.entry)
  else
    redis.call('ZREM', turns, turn.entry)
  end
end
if #gone > 0 then redis.call('ZREM', turns, unpack(gone)) end
events_point(events)
if events.count > 0 then day_register(days, tenant_key, settings, tenant, day, now) end
return {'turned', now, #sound, unpack(corrupt)}
