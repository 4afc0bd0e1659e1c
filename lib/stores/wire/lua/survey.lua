--- Tells the fence counters of a node of a Redlock, for another one that lost its own.
--- KEYS[...] keys      since when this node remembers; then the last fences of all slot groups
--- ARGV[...] requests  the longest lease, in ms
--- RETURNS [1] whole       1 when it may vote, else 0
--- RETURNS [2...] fences   the last fence of each group as text, 0 for none
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(table.remove(keys, 1), tonumber(requests[1]), now)
local reply = { epoch.whole and 1 or 0 }
for i, fenceKey in ipairs(keys) do reply[i + 1] = string.match(redis.call('GET', fenceKey) or '0', '^%d+') end
return reply
