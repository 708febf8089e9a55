--[[
refusals: queues evidence of a refusal after evaluation. No record keeps a refusal, so its entry has all that the envelope
is made of. Refusals cost their caller nothing, so their number per tenant and minute is limited.
]]
-- @include base/int64, evidence/queue

local EVIDENCE_MINUTE_MS, EVIDENCE_REQUEST_BYTES = 60000, 4096

-- The key that counts a tenant's refusals of the minute.
local function evidence_count_key(unsigned, tenant)
  return unsigned .. ':' .. tenant
end

-- Raises if a key has another type, before a script writes anything.
local function evidence_check(unsigned, tenant)
  redis.call('XLEN', unsigned)
  redis.call('GET', evidence_count_key(unsigned, tenant))
end

-- Counts a refusal of a tenant; returns whether its evidence is queued.
local function evidence_counts(unsigned, tenant, per_minute, now)
  local key, minute_ms = evidence_count_key(unsigned, tenant), now - now % EVIDENCE_MINUTE_MS
  local counted_ms, count = (redis.call('GET', key) or ''):match('^(%d+) (%d+)$')
  count = tonumber(counted_ms) == minute_ms and tonumber(count) or 0
  if count >= tonumber(per_minute) then return false end
  redis.call('SET', key, int64_text(minute_ms) .. ' ' .. int64_text(count + 1), 'PX', 2 * EVIDENCE_MINUTE_MS)
  return true
end

-- Returns the reply, behind `attested` and the time if evidence of it was queued.
-- facts: names and values of the subject of the refusal.
local function evidence_of_refusal(unsigned, evidence, now, tenant, facts, reply)
  local inputs, digest = evidence_inputs(evidence, now)
  local request_id, endpoint, per_minute, request = evidence:match('^[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if not (inputs and evidence_counts(unsigned, tenant, per_minute, now)) then return reply end
  -- The format of a denial with the figures of the ledger, and of one with a window as well.
  if reply[1] == 'denied' and reply[5] then inputs = (reply[7] and '3' or '2') .. inputs:sub(2) end
  local words = {}
  for i, word in ipairs(reply) do words[i] = type(word) == 'number' and int64_text(word) or word end
  local entry = {'kind', 'refusal', 'inputs', inputs, 'at_ms', int64_text(now), 'request_id', request_id, 'tenant', tenant,
    'endpoint', endpoint, 'reply', table.concat(words, '\n')}
  if #request > 0 and #request <= EVIDENCE_REQUEST_BYTES then
    for _, word in ipairs({'digest', digest, 'request', request}) do entry[#entry + 1] = word end
  end
  for _, word in ipairs(facts) do entry[#entry + 1] = word end
  redis.call('XADD', unsigned, '*', unpack(entry))
  return {'attested', now, unpack(reply)}
end
