--[[
failing: indexes the partition's subscriptions whose deliveries fail, by failures in a row. Written with that figure.
]]

local function failing_write(failing, subscription_id, failures)
  if (tonumber(failures) or 0) > 0 then
    redis.call('ZADD', failing, failures, subscription_id)
  else
    redis.call('ZREM', failing, subscription_id)
  end
end
