--- Lets a node of a Redlock vote again that had lost its memory, after telling it the fences that others remember.
--- KEYS[...] keys      since when this node remembers; then the last fences of slot groups
--- ARGV[...] requests  the longest lease, in ms; the run id and the since that greet told; then for each group the fence to be above
--- RETURNS 1 admitted
--- RETURNS 0 refused   it lost its memory once more since it was greeted, or may have forgotten what has not ended
--- INVARIANT fences are told before the node may vote
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/epoch

local epochKey, maxLeaseMs = table.remove(keys, 1), tonumber(table.remove(requests, 1))
local runId, since = table.remove(requests, 1), tonumber(table.remove(requests, 1))
local epoch = readEpoch(epochKey, maxLeaseMs, now)
if epoch.runId ~= runId or epoch.since ~= since or not epoch.whole and epoch.leftMs > 0 then return 0 end
raiseFences(keys, requests)
redis.call('SET', epochKey, runId .. ' ' .. string.format('%.0f', since) .. ' 1')
return 1
