--- Looks whether a node of a Redlock remembers; one that does not is told what fences the caller has seen.
--- KEYS[1] epochKey  since when this node remembers
--- KEYS[...] fenceKeys  the last fences of the slot groups that the caller has seen
--- ARGV[1] maxLeaseMs: number  the longest lease
--- ARGV[...] floors: number  the highest fence seen in each of those groups
--- RETURNS all memory: whole flag, leftMs, runId text, since, now, hasVoted flag  whole when it may vote; leftMs until all that it may have forgotten has ended; runId of this incarnation of the server; since is the server time in ms from which its memory counts; hasVoted when it may ever have granted anything, as far as its data tell
--- INVARIANT the time it stays out begins here at the latest
--- @bind

--- @include shared/server-time
--- @include shared/epoch

local epoch = readEpoch(epochKey, maxLeaseMs, now)
if not epoch.whole then raiseFences(fenceKeys, floors) end
return { epoch.whole and 1 or 0, epoch.whole and 0 or epoch.leftMs, epoch.runId, epoch.since, now, epoch.hasVoted and 1 or 0 }
