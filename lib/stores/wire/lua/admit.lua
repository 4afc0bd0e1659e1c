--- Lets a node of a Redlock vote again that had lost its memory, after telling it the fences that others remember.
--- KEYS[1] epochKey  since when this node remembers
--- KEYS[...] fenceKeys  the last fences of slot groups
--- ARGV[1] maxLeaseMs: number  the longest lease
--- ARGV[2] runId: text  of the server, as greet told it
--- ARGV[3] since: number  from when its memory counts, as greet told it
--- ARGV[...] floors: number  for each group the fence to be above
--- RETURNS 1 admitted
--- RETURNS 0 refused   it lost its memory once more since it was greeted, or may have forgotten what has not ended
--- INVARIANT fences are told before the node may vote
--- @bind

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(epochKey, maxLeaseMs, now)
if epoch.runId ~= runId or epoch.since ~= since or not epoch.whole and epoch.leftMs > 0 then return 0 end
raiseFences(fenceKeys, floors)
redis.call('SET', epochKey, runId .. ' ' .. string.format('%.0f', since) .. ' 1')
return 1
