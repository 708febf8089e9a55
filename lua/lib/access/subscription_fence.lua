--[[
subscription_fence: checks whether a key that is restricted to some scopes may act on a subscription, by the scope filter
of the subscription. All that it could match must lie within: one that ends with `*` is judged by the whole segments
before the `*`, and one without a filter matches everything.
]]
-- @include access/scope_filter

local function subscription_fence_allows(filter, subscribed)
  if not filter or filter == '' then return true end
  local scope = (subscribed or ''):lower()
  if scope:sub(-1) == '*' then scope = scope:match('^(.*)/') or '' end
  return scope ~= '' and scope_filter_allows(filter, scope)
end
