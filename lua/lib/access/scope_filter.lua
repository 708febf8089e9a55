--[[
scope_filter: checks whether a key that is restricted to some scopes may act on a path. Entries are
lower case, one a line, and one that matches is enough: `level:value` and `level:*` match a segment; a path from the root
matches itself and what lies below it, since only the root of a scope has a tenant. A bare `*` matches nothing. No entry
means no restriction.
]]

local function scope_filter_allows(filter, scope_path)
  if not filter or filter == '' then return true end
  local path = '/' .. scope_path .. '/'
  for entry in filter:gmatch('[^\n]+') do
    local segment = entry:sub(-2) == ':*' and entry:sub(1, -2) or entry .. '/'
    if entry ~= '*' and path:find('/' .. segment, 1, true) then return true end
  end
  return false
end
