--- Tells the fence counters of a node of a Redlock, for another one that lost its own.
--- KEYS[1] epochKey  since when this node remembers
--- KEYS[...] fenceKeys  the last fences of all slot groups
--- ARGV[1] maxLeaseMs: number  the longest lease
--- RETURNS all head: whole flag  whether it may vote
--- RETURNS each group: fence  the last fence, as text, 0 for none
--- @bind

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(epochKey, maxLeaseMs, now)
local reply = { epoch.whole and 1 or 0 }
for i, fenceKey in ipairs(fenceKeys) do reply[i + 1] = redis.call('GET', fenceKey) or '0' end
return reply
