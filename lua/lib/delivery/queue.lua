--[[
queue: puts deliveries at the ends of their lanes. The window of a subscription says how many of its deliveries are open.
Where that, or the number of its owner's, is as high as may be, the subscription falls behind in an outbox: `behind <outbox>`
is the place from which on its events are fetched later. Until that has reached the cursor of the outbox, no event of it is
queued at once: it would pass those before it.

`sources` is the number of these places, `missed` the events behind them by the hour, `epoch` the subscription's when it fell
behind: of another one nothing is for it any more. It is '' where the record could not be read when that was.

A window of another type begins anew: the subscription falls behind with the next event.

A place is `<entry>`, or in the middle of one `<entry> <number of the event> <subscription>`: up to there it is done.
]]

-- Of a subscription and of an owner; how long the index of a day and an idle window stay.
local OPEN_MAX, OWNER_OPEN_MAX, INDEX_MS, WINDOW_MS = 1000, 50000, 16 * 86400000, 40 * 86400000
local HOUR_MS = 3600000
-- How many days of an owner are counted.
local QUEUED_DAYS = 15
-- Deliveries of a lane after which it is looked at again.
local LOOK_EACH = 50

local function place_parts(place)
  local ms, sequence, rest = place:match('^(%d+)%-(%d+) ?(.*)$')
  local number, subscription = (rest or ''):match('^(%d+) (.*)$')
  -- A whole entry lies behind all that is in the middle of it.
  return {tonumber(ms) or 0, tonumber(sequence) or 0, tonumber(number) or math.huge, subscription or ''}
end

-- Returns whether a place is another one, or lies behind it.
local function place_reaches(place, other)
  local a, b = place_parts(place), place_parts(other)
  for i = 1, 4 do
    if a[i] ~= b[i] then return a[i] > b[i] end
  end
  return true
end

-- prefixes: of the names of keys: delivery, lane, window, deliveries.
local function queue_new(now, day, lane_concurrency, prefixes)
  return {now = ('%d'):format(now), day = day, lane_concurrency = tonumber(lane_concurrency), prefixes = prefixes,
    windows = {}, deliveries = {}, lanes = {}, ids = {}, added = {}}
end

-- Returns the mark of an owner's subscriptions: '' for one of another type, which is written anew by those who read them again.
local function queue_mark(key)
  local mark = redis.pcall('GET', key)
  return type(mark) == 'string' and mark or ''
end

-- Forgets what the subscription missed.
local function window_forget(window)
  if not window.was_behind then return end
  window.sources, window.behind, window.missed, window.gone = 0, {}, {}, {'missed'}
  for _, field in ipairs(redis.call('HKEYS', window.key)) do
    if field:find('^behind ') then window.gone[#window.gone + 1] = field end
  end
end

-- Returns in how many outboxes it is behind, by their places.
local function sources_of(window)
  local count = 0
  for _, field in ipairs(redis.call('HKEYS', window.key)) do count = count + (field:find('^behind ') and 1 or 0) end
  return count
end

-- Returns the window of a subscription, read once. epoch: '' where it is not known. owner: its name, and how many deliveries of it
-- are open.
local function queue_window(queue, id, epoch, owner)
  local window = queue.windows[id]
  if window then return window end
  window = {id = id, key = queue.prefixes.window .. id, index = queue.prefixes.deliveries .. id .. ':' .. queue.day,
    epoch = epoch, owner = owner, behind = {}, read = {}, places = {}, missed = {}}
  local stored = redis.pcall('HMGET', window.key, 'open', 'queued', 'sources', 'epoch', 'missed')
  window.damage = stored.err
  window.open, window.queued = tonumber(stored[1]) or 0, tonumber(stored[2]) or 0
  window.sources = tonumber(stored[3]) or stored[3] and sources_of(window) or 0
  -- An epoch that cannot be read is not known.
  if not (stored[4] or ''):find('^%d+$') then stored[4] = '' end
  window.was_behind = window.sources > 0
  for hour, count in (stored[5] or ''):gmatch('(%d+):(%d+)') do window.missed[tonumber(hour)] = tonumber(count) end
  if epoch == '' then window.epoch = stored[4] end
  if stored[4] ~= window.epoch and stored[4] ~= '' then window_forget(window) end
  queue.windows[id] = window
  return window
end

-- Returns the place up to which it has the events of an outbox in which it is behind; false where it is not.
local function window_behind(window, source)
  if window.behind[source] == nil then
    local is_stored = window.was_behind and not window.gone
    window.behind[source] = is_stored and redis.call('HGET', window.key, 'behind ' .. source) or false
  end
  return window.behind[source]
end

-- Notes that it has the events of an outbox up to a place; false where it is not behind any more.
local function window_move(window, source, place)
  local was_behind = window_behind(window, source)
  window.sources = window.sources + (place and 1 or 0) - (was_behind and 1 or 0)
  window.behind[source], window.places[source] = place, place
end

-- Counts events that were missed, or are not missed any more.
local function window_miss(window, hour, count)
  local missed = (window.missed[hour] or 0) + count
  window.missed[hour] = missed > 0 and missed or nil
end

-- The hour of an event, by its place in its log.
local function hour_of(place) return math.floor((tonumber(place:match('(%d+)%-%d+$')) or 0) / HOUR_MS) end

-- Returns whether this many more may be open.
local function window_has_room(window, count)
  return window.open + count <= OPEN_MAX and window.owner.open + count <= OWNER_OPEN_MAX
end

-- Queues a delivery, if there is none yet; returns whether it did. fields: of its record, which names its lane where that is of
-- a replay. Others follow from the subscription and the place.
local function queue_add(queue, window, id, lane, fields)
  if queue.added[id] or redis.call('EXISTS', queue.prefixes.delivery .. id) == 1 then return false end
  -- A key of another type raises here. Nothing is noted before both were read, or effects would find a lane without ids.
  local ids = queue.ids[lane]
  if not ids then redis.call('LLEN', queue.prefixes.lane .. lane) end
  if not window.rows then
    redis.call('ZCARD', window.index)
    window.rows = {}
  end
  if not ids then
    ids = {}
    queue.ids[lane], queue.lanes[#queue.lanes + 1] = ids, lane
  end
  queue.added[id] = true
  window.open, window.queued, window.owner.open = window.open + 1, window.queued + 1, window.owner.open + 1
  local rows = window.rows
  ids[#ids + 1], rows[#rows + 1], rows[#rows + 2] = id, queue.now, ('%010d '):format(window.queued) .. id
  queue.deliveries[#queue.deliveries + 1] = {id = id,
    fields = {'subscription', window.id, 'at_ms', queue.now, 'epoch', window.epoch, unpack(fields)}}
  return true
end

-- The effects.

local function window_write(queue, window, behind, open)
  if window.damage then redis.call('DEL', window.key) end
  if window.gone then redis.call('HDEL', window.key, unpack(window.gone)) end
  for source, place in pairs(window.places) do
    if place then
      redis.call('HSET', window.key, 'behind ' .. source, place)
    else
      redis.call('HDEL', window.key, 'behind ' .. source)
    end
  end
  local fields = {'owner', window.owner.name}
  local function set(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  if window.sources > 0 then
    local missed = {}
    for hour, count in pairs(window.missed) do missed[#missed + 1] = ('%d:%d'):format(hour, count) end
    set('sources', window.sources)
    set('epoch', window.epoch)
    set('missed', table.concat(missed, ' '))
    if not window.was_behind then redis.call('ZADD', behind, queue.now, window.id) end
  elseif window.was_behind then
    redis.call('HDEL', window.key, 'sources', 'epoch', 'missed')
    redis.call('ZREM', behind, window.id)
  end
  if window.rows then
    redis.call('ZADD', window.index, unpack(window.rows))
    set('open', window.open)
    set('queued', window.queued)
    redis.call('HSET', open, window.owner.name, window.owner.open)
    redis.call('PEXPIRE', window.index, INDEX_MS)
  end
  if #fields > 2 then
    redis.call('HSET', window.key, unpack(fields))
    redis.call('PEXPIRE', window.key, WINDOW_MS)
  end
end

-- Counts deliveries of an owner that are queued on this day, so that it is known what the data of a tenant takes. They are
-- queued all the same where they cannot be counted.
local function queued_count(queue, queued, owner, count)
  if redis.pcall('HINCRBY', queued, owner .. ' ' .. queue.day, count) ~= count then return end
  local days = {}
  for _, field in ipairs(redis.call('HKEYS', queued)) do
    local of, day = field:match('^(%S+) (%d+)$')
    if of == owner then days[#days + 1] = day end
  end
  table.sort(days)
  for i = 1, #days - QUEUED_DAYS do redis.call('HDEL', queued, owner .. ' ' .. days[i]) end
end

-- Writes deliveries and windows. behind: the partition's subscriptions that are; open, queued: how many of each owner are open,
-- and were queued on a day.
local function queue_write(queue, lanes, behind, open, queued)
  for _, delivery in ipairs(queue.deliveries) do
    redis.call('HSET', queue.prefixes.delivery .. delivery.id, unpack(delivery.fields))
  end
  for _, lane in ipairs(queue.lanes) do
    local ids = queue.ids[lane]
    local length = redis.call('RPUSH', queue.prefixes.lane .. lane, unpack(ids))
    local before = length - #ids
    -- Otherwise the deliveries before them keep the lane going: in flight, or due. A lane that keeps growing is looked at all the
    -- same, because a deleted record may have stopped it.
    local grows = math.floor(before / LOOK_EACH) < math.floor(length / LOOK_EACH)
    if before < queue.lane_concurrency or grows then redis.call('ZADD', lanes, 'NX', queue.now, lane) end
  end
  local counts = {}
  for _, window in pairs(queue.windows) do
    window_write(queue, window, behind, open)
    local owner = window.owner.name
    if window.rows then counts[owner] = (counts[owner] or 0) + #window.rows / 2 end
  end
  for owner, count in pairs(counts) do queued_count(queue, queued, owner, count) end
end
