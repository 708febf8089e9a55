//! Each call again on a copy of the data, as if its slot were moving to another node of a cluster. There, Redis raises an error
//! for each key that is not on the node (any more): a script gets it before it has written anything, and passes it on.

use redis::{RedisResult, Value};

/// What is wrong with a call in a moving slot; `written`: the keys that it changed.
pub fn judge(reply: &RedisResult<Value>, written: &[String]) -> Option<String> {
    let error = reply.as_ref().err()?.to_string();
    let is_found = error.contains("LATE") || error.contains("IGNORED") || !written.is_empty();
    is_found.then(|| format!("{error}, written: {written:?}"))
}

/// The text of a script as it runs in a moving slot: with all its keys, or without those that are not in KEYS.
pub fn in_moving_slot(source: &str, have_built_keys_moved: bool) -> String {
    let (flags, body) = source.split_once('\n').expect("a line of flags");
    format!(
        "{flags}\nlocal have_built_keys_moved = {have_built_keys_moved}\n{GUARD}\
         local function script()\n{body}\nend\n{REPORT}"
    )
}

/// Replaces `redis`. A call with a key of KEYS that does not exist would not begin, so such a key counts as there.
const GUARD: &str = "
local READS = {}
for name in ('EXISTS GET HEXISTS HGET HGETALL HKEYS HLEN HMGET HVALS LINDEX LLEN LPOS LRANGE SCARD TYPE XLEN XRANGE '
  .. 'XREVRANGE ZCARD ZCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYSCORE ZREVRANK '
  .. 'ZSCORE'):gmatch('%S+') do READS[name] = true end
local OF_KEYS = {DEL = true, UNLINK = true, EXISTS = true}
local real, given, absent, seen, has_written, missed, late = redis, {}, {}, {}, false, nil, {}
for _, key in ipairs(KEYS) do given[key], absent[key] = true, real.call('EXISTS', key) == 0 end
local function look(command, key, ...)
  if not key then return end
  if command == 'MEMORY' then command, key = 'GET', (...) end
  for _, name in ipairs(OF_KEYS[command] and {key, ...} or {key}) do
    local is_gone = real.call('EXISTS', name) == 0 and not absent[name] or have_built_keys_moved and not given[name]
    if has_written then
      if is_gone or not (given[name] or seen[name]) then late[#late + 1] = command .. ' ' .. name end
    elseif is_gone then
      missed = name
      error({err = 'ERR Script attempted to access a non local key in a cluster node'})
    end
    seen[name] = true
  end
  has_written = has_written or not READS[command]
end
local redis = setmetatable({
  call = function(...)
    look(...)
    return real.call(...)
  end,
  pcall = function(...)
    local is_there, raised = pcall(look, ...)
    if not is_there then return {err = raised} end
    return real.pcall(...)
  end,
}, {__index = real})
";

/// `LATE`: what was not certain to be there behind the first write. `IGNORED`: what the script went on without.
const REPORT: &str = "
local reply = script()
if #late > 0 then return real.error_reply('LATE ' .. table.concat(late, ', ')) end
if missed then return real.error_reply('IGNORED ' .. missed) end
return reply
";
