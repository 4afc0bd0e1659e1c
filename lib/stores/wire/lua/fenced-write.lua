--- Writes fields of a hash on behalf of a hold, unless a hold with a higher fence has written before.
--- KEYS[1] dataKey  the hash; its field `fence` keeps the highest fence that wrote
--- ARGV[1] fence: digits  of the hold
--- ARGV[...] fields: text or number  a name and a value for each field
--- RETURNS 1 written
--- RETURNS 0 stale, nothing was changed
--- INVARIANT an equal fence is accepted: one hold may write several times
--- @bind

local highest = redis.call('HGET', dataKey, 'fence')
if highest and tonumber(fence) < tonumber(highest) then return 0 end
redis.call('HSET', dataKey, 'fence', fence, unpack(fields))
return 1
