--[[ due_tenants: the index of a partition's tenants by their earliest due time, where a sweep begins. ]]

-- Enters a due time of a tenant, if it is the earliest.
local function due_tenants_enter(due_tenants, due_ms, tenant) redis.call('ZADD', due_tenants, 'LT', due_ms, tenant) end
