--- Writes fields of a hash on behalf of a hold, unless a hold with a higher fence has written before.
--- KEYS[1] dataKey  the hash; its field `fence` keeps the highest fence that wrote
--- ARGV[...] writes  the fence, then a name and a value for each field
--- RETURNS 1 written
--- RETURNS 0 stale, nothing was changed
--- INVARIANT an equal fence is accepted: one hold may write several times
local dataKey = KEYS[1]
local writes = ARGV

local fence = writes[1]
local highest = redis.call('HGET', dataKey, 'fence')
if highest and tonumber(fence) < tonumber(highest) then return 0 end
redis.call('HSET', dataKey, 'fence', unpack(writes))
return 1
