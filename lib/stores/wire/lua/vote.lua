--- Votes for a grant on one node of a Redlock, or against it.
--- KEYS[1] lockKey   the lock
--- KEYS[2] fenceKey  the slot group's last fence
--- KEYS[3] epochKey  since when this node remembers
--- ARGV[1] id          of the ballot, new for each attempt
--- ARGV[2] mode        w or r
--- ARGV[3] leaseMs     length of the lease, in ms
--- ARGV[4] fences      how many fences to reserve
--- ARGV[5] proposal    the least fence the caller can use
--- ARGV[6] notAfter    server time in ms after which to do nothing; 0 for none
--- ARGV[7] label       what the holder says of itself, or -
--- ARGV[8] owner       whose hold may be joined, or -
--- ARGV[9] minHoldMs   the lock stays taken at least so long, in ms
--- ARGV[10] maxLeaseMs  the longest lease, in ms: how long a node that forgot stays out
--- RETURNS 0 busy         now, ms until the present hold ends
--- RETURNS 1 granted      now, fence, ms until the lease ends, 1 for write or 0 for read, 1 when the fence is that of its owner's hold
--- RETURNS 2 upgrade      now
--- RETURNS 3 late         now
--- RETURNS 4 quarantined  now, ms until all that this node may have forgotten has ended
--- RETURNS 5 not admitted  now
--- RETURNS 6 full         now; the owner has as many holds of the lock as can be
--- INVARIANT the same id asked for again gets the same vote, not prolonged
--- INVARIANT the keys need not share a slot: a node is a single server, never a Cluster
local lockKey, fenceKey, epochKey = KEYS[1], KEYS[2], KEYS[3]
local id, mode, leaseMs, fences, proposal, notAfter = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local label, owner, minHoldMs, maxLeaseMs = ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/epoch

if notAfter > 0 and now > notAfter then return { 3, now } end
local epoch = readEpoch(epochKey, maxLeaseMs, now)
if not epoch.whole then
  if epoch.leftMs > 0 then return { 4, now, epoch.leftMs } end
  return { 5, now }
end

-- The node's own clock stays out of the fence: then nodes that saw the same grants answer the same number.
local lock = parseLock(redis.call('GET', lockKey) or '', { lockKey, false, fenceKey }, proposal - 1, now, 0)

local function granted(holder, shared)
  return { 1, now, holder.fence, holder.ending - now, lock.mode == 'w' and 1 or 0, shared and 1 or 0 }
end

local own = holderOf(lock, id)
if own then return granted(own, false) end
local kin = ownedBy(lock, owner)
if kin and lock.mode == 'r' and mode == 'w' then return { 2, now } end
if kin and isFullFor(lock, owner) then return { 6, now } end
if not kin and #lock.holders > 0 and not (lock.mode == 'r' and mode == 'r') then return { 0, now, lastEnd(lock) - now + 1 } end
if not kin then lock.mode = mode end
local who = { id = id, fences = fences, minHoldMs = minHoldMs, owner = owner, label = label }
local holder = enter(lock, who, math.max(leaseMs, minHoldMs), kin and kin.fence)
redis.call('SET', lockKey, formatLock(lock), 'PX', string.format('%.0f', lastEnd(lock) - now + LOCK_GRACE_MS))
return granted(holder, kin)
