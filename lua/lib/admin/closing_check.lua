--[[ closing_check: asked before a step of a close, so that it cannot fail on the intent after its first write. ]]
local function closing_check(key)
  local figures = {'offset', 'failures', 'budgets_closed', 'webhooks_disabled', 'api_keys_revoked', 'reservations_released'}
  local kept = redis.call('HMGET', key, unpack(figures))
  for i = 1, #figures do
    if kept[i] and not kept[i]:find('^%d+$') then error(key .. ': ' .. figures[i] .. ' is no number') end
  end
end
