-- Lua as Redis runs it: 5.1, with the globals of a script.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV", "cjson", "bit", "struct", "cmsgpack" }
max_line_length = 140
