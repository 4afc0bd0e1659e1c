--- Looks whether a node of a Redlock remembers; one that does not is told what fences the caller has seen.
--- KEYS[...] keys      since when this node remembers; then the last fences of the slot groups that the caller has seen
--- ARGV[...] requests  the longest lease, in ms; then the highest fence seen in each of those groups
--- RETURNS [1] whole   1 when it may vote, else 0
--- RETURNS [2] leftMs  ms until all that it may have forgotten has ended; 0 when it has
--- RETURNS [3] runId   of this incarnation of the server
--- RETURNS [4] since   server time in ms from which its memory counts
--- RETURNS [5] now
--- RETURNS [6] hasVoted  1 when this node may ever have granted anything, as far as its data tell, else 0
--- INVARIANT the time it stays out begins here at the latest
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(table.remove(keys, 1), tonumber(table.remove(requests, 1)), now)
if not epoch.whole then raiseFences(keys, requests) end
return { epoch.whole and 1 or 0, epoch.whole and 0 or epoch.leftMs, epoch.runId, epoch.since, now, epoch.hasVoted and 1 or 0 }
