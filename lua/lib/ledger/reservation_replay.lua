--[[
reservation_replay: replays a create, commit or release. Reads only what the response shows: a record may hold a thousand
extensions.
]]

-- Returns names and values of those fields that are set.
local function fields_set(key, names)
  local record = {}
  for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do
    if value then record[#record + 1], record[#record + 2] = names[i], value end
  end
  return record
end

-- Adds the snapshots of an operation to names, one for each depth.
local function add_snapshots(names, operation, depths)
  for depth in (depths or ''):gmatch('%d+') do names[#names + 1] = operation .. '.' .. depth end
end

-- Further fields for the evidence of a create, a commit or a release; only records with inputs have evidence.
local CREATE_EVIDENCE = {'create_inputs', 'subject', 'action_kind', 'action_name', 'action_tags', 'idempotency_key',
  'metadata', 'overage_policy', 'created_at_ms', 'grace_ms'}
local END_EVIDENCE = {'end_inputs', 'status', 'finalized_at_ms', 'end_key', 'actual', 'metrics', 'committed_metadata',
  'release_reason'}

local function add_evidence(names, inputs, of_evidence)
  if not inputs then return end
  for _, name in ipairs(of_evidence) do names[#names + 1] = name end
end

-- Small records, which a replay reads whole.
local SMALL = {DRY_RUN = true, DECISION = true, APPLIED = true}

-- Returns what a create, a usage event, a decision or a dry run has stored.
local function creation_replay(key, now)
  local status, depths, inputs = unpack(redis.call('HMGET', key, 'status', 'budgeted', 'create_inputs'))
  if SMALL[status] then return {'replayed', now, redis.call('HGETALL', key)} end
  local names = {'status', 'unit', 'estimate', 'expires_at_ms', 'extended_ms', 'scope_path', 'caps', 'budgeted',
    'observed'}
  add_snapshots(names, 'create', depths)
  add_evidence(names, inputs, CREATE_EVIDENCE)
  return {'replayed', now, fields_set(key, names)}
end

-- Returns the reply, or nil for a request under another key. Only an ended record has what this reads.
local function reservation_replay(key, key_digest, payload_hash, now)
  local status, finish, depths, inputs = unpack(redis.call('HMGET', key, 'status', 'finish', 'budgeted', 'end_inputs'))
  local finish_key, finish_hash = (finish or ''):match('^(%S+) (%S+)$')
  if finish_key ~= key_digest then return nil end
  if finish_hash ~= payload_hash then return {'idempotency_mismatch'} end
  local names = {'unit', 'estimate', 'charged', 'scope_path', 'budgeted'}
  add_snapshots(names, status == 'COMMITTED' and 'commit' or 'release', depths)
  add_evidence(names, inputs, END_EVIDENCE)
  return {'replayed', now, fields_set(key, names)}
end
