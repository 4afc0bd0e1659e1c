--- Looks whether a node of a Redlock remembers; one that does not is told what fences the caller has seen.
--- KEYS[1] epochKey  since when this node remembers
--- KEYS[...] fenceKeys  the last fences of the slot groups that the caller has seen
--- ARGV[1] maxLeaseMs: number  the longest lease
--- ARGV[...] floors: number  the highest fence seen in each of those groups
--- RETURNS [1] whole   1 when it may vote, else 0
--- RETURNS [2] leftMs  ms until all that it may have forgotten has ended; 0 when it has
--- RETURNS [3] runId   of this incarnation of the server
--- RETURNS [4] since   server time in ms from which its memory counts
--- RETURNS [5] now
--- INVARIANT the time it stays out begins here at the latest
--- @bind

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(epochKey, maxLeaseMs, now)
if not epoch.whole then raiseFences(fenceKeys, floors) end
return { epoch.whole and 1 or 0, epoch.whole and 0 or epoch.leftMs, epoch.runId, epoch.since, now }
