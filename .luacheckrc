-- Lua as Redis runs it: 5.1, with the globals of a script.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV", "cjson", "bit", "struct", "cmsgpack" }
max_line_length = 140

-- A file alone lacks the fragments that it includes, and a fragment alone does not use what it defines. Names are checked
-- where they meet: tests/it/redis/scripts.rs runs luacheck on the assembled scripts and fragments.
ignore = { "113", "211", "231" }
-- It replaces functions of fragments.
files["lua/lib/batch/*.lua"] = { ignore = { "111", "112" } }
