#!lua flags=allow-oom
--[[ Written by `make signatures`, from the declaration in src/store/evidence/mod.rs.
Gives the issuers of a configuration their numbers, and registers those that are new.

KEYS[1]  write  issuers  hash  {dir}:issuers

ARGV[1]               ahead_ms  int64           How far ahead what changes the signing key must lie.
ARGV[2]               known     n, then n more
    What the caller has read before, since the store may have lost it. Of each: number, from_ms, until_ms or open,
    server id, signer.
ARGV[known_to + 1..]  given     to the end
    Of each: from_ms, until_ms or open, server id, signer, and the signer's name in the other form, which it keeps if it
    is registered by it. In the order of their windows, which do not overlap.

Replies, the first that applies:
  damaged number | renumbered number | contradicted rule given registered now_ms | registered issuers
Writes:
  On registered: numbers of new issuers, ends of open windows, and what was lost of those that the caller knows.
]]
local issuers = KEYS[1]
local ahead_ms = ARGV[1]
local known_from = 3
local known_to = 2 + ARGV[2]
local given_from = known_to + 1
-- End of the signature.
-- @include base/time
local now = now_ms()

-- An entry as a table; nil if it cannot be read. A window without an end lasts for ever.
local function issuer(from_ms, until_ms, server_id, signer)
  local one = {from = tonumber(from_ms), server_id = server_id, signer = signer, window = from_ms .. ' ' .. until_ms}
  one.until_ms = until_ms == 'open' and math.huge or tonumber(until_ms)
  return one.from and one.until_ms and one
end

local function covers(one, at_ms)
  return one.from <= at_ms and at_ms < one.until_ms
end

local all, by_number, last = {}, {}, 0

local function add(one, number)
  one.number = number
  all[#all + 1], by_number[number] = one, one
  last = math.max(last, number)
end

local stored = redis.call('HGETALL', issuers)
for i = 1, #stored, 2 do
  local from_ms, until_ms, server_id, signer = stored[i + 1]:match('^(%d+) (%w+) (%S+) (%S+)$')
  local one = from_ms and tonumber(stored[i]) and issuer(from_ms, until_ms, server_id, signer)
  if not one then return {'damaged', stored[i]} end
  add(one, tonumber(stored[i]))
end

local function registered(server_id, signer)
  for _, one in ipairs(all) do
    if one.server_id == server_id and one.signer == signer then return one end
  end
end

-- Windows that overlap. A past one signs nothing any more; the same key may be listed under a former
-- server id.
local function overlapped(one)
  local is_over = one.until_ms <= now
  for _, other in ipairs(all) do
    local apart = is_over and one.server_id ~= other.server_id
    if not apart and one.from < other.until_ms and other.from < one.until_ms then return other end
  end
end

-- A lost entry gets its number back, unless another one has it meanwhile.
local new, changed, lost = {}, {}, {}
for i = known_from, known_to, 5 do
  local number, from_ms, until_ms, server_id, signer = unpack(ARGV, i, i + 4)
  local one, kept = issuer(from_ms, until_ms, server_id, signer), by_number[tonumber(number)]
  if kept ~= registered(server_id, signer) or (kept and kept.from ~= one.from) then return {'renumbered', number} end
  one.number = tonumber(number)
  if not kept then
    lost[#lost + 1] = one
  elseif kept.until_ms == math.huge and one.until_ms ~= math.huge then
    kept.until_ms, kept.window = one.until_ms, one.window
    changed[#changed + 1] = kept
  end
end
for _, one in ipairs(lost) do
  if overlapped(one) then return {'renumbered', tostring(one.number)} end
end
for _, one in ipairs(lost) do
  add(one, one.number)
  changed[#changed + 1] = one
end

local signing
for _, one in ipairs(all) do
  if covers(one, now) then signing = one end
end

-- A registered entry keeps its start; an end may be added.
for i = given_from, #ARGV, 5 do
  local place = (i - given_from) / 5 + 1
  local from_ms, until_ms, server_id, signer, other_form = unpack(ARGV, i, i + 4)
  local one = issuer(from_ms, until_ms, server_id, signer)
  local known, other = registered(server_id, signer), registered(server_id, other_form)
  -- Under its other name a key has the same window: an id may have belonged to another key.
  if not known and other and other.from == one.from then known = other end
  if not known then
    one.place, new[#new + 1] = place, one
  elseif known.from ~= one.from then
    return {'contradicted', 'from', place, known.window, now}
  elseif known.until_ms == math.huge and one.until_ms ~= math.huge then
    if one.until_ms < now + ahead_ms then return {'contradicted', 'ends_too_soon', place, known.window, now} end
    known.until_ms, known.window = one.until_ms, one.window
    changed[#changed + 1] = known
  elseif known.until_ms ~= one.until_ms and not (one.until_ms == math.huge and now < known.until_ms) then
    -- An older configuration may still lack a future end; the registered one applies.
    return {'contradicted', 'until', place, known.window, now}
  end
end

-- A new key must not overlap another, and must start late enough for every process to read it.
for _, one in ipairs(new) do
  local other = overlapped(one)
  if other and other.server_id ~= one.server_id then
    return {'contradicted', 'server_id', one.place, other.server_id .. ' ' .. other.window, now}
  end
  if other then return {'contradicted', 'overlap', one.place, other.window, now} end
  if signing and one.until_ms > now and one.from < now + ahead_ms then
    return {'contradicted', 'starts_too_soon', one.place, signing.window, now}
  end
end

for _, one in ipairs(new) do
  add(one, last + 1)
  changed[#changed + 1] = one
end

-- Effects: none can fail.
for _, one in ipairs(changed) do
  redis.call('HSET', issuers, one.number, one.window .. ' ' .. one.server_id .. ' ' .. one.signer)
end
local reply = {'registered'}
for _, one in ipairs(all) do
  reply[#reply + 1], reply[#reply + 2] = one.number, one.window .. ' ' .. one.server_id .. ' ' .. one.signer
end
return reply
