--- Takes a lock away from its holders, tells them, and lets in whose turn it is.
--- KEYS[1] lockKey   the lock
--- KEYS[2] queueKey  its waiters
--- KEYS[3] fenceKey  the slot group's last fence
--- ARGV[1] fence: number or nothing  of the holder to take it from, any of those reserved for it, of one with a permit the first; or nothing for all holders
--- ARGV[2] notAfter: number  server time in ms after which nothing is done
--- ARGV[3] floor: number  the highest fence that the caller has seen in the slot group
--- ARGV[4] recoveryMs: number  how long nothing new is granted after the server forgot
--- RETURNS 1 taken: now
--- RETURNS 0 none: now  there is no such holder
--- RETURNS 2 late: now  after notAfter: nothing was done
--- INVARIANT the first write deletes, so that it works on a full server
--- @bind

--- @include shared/server-time

if now > notAfter then return { 2, now } end

--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/stand-in
--- @request

local lock = openLock(request)
settle(lock)
local kept, taken = {}, 0
for _, holder in ipairs(lock.holders) do
  -- A process may hand a permit on under a fence that was reserved with another of its permits.
  local last = whole(holder).fence + (lock.mode == 'p' and 0 or holder.fences - 1)
  -- What else keeps a lock that nobody holds has no fence: the time for leases to be brought back, and a turn on a node of a Redlock.
  if holder.fence == 0 or fence and (fence < holder.fence or fence > last) then
    kept[#kept + 1] = holder
  else
    taken = 1
    -- Those who were told of the holder tell of it again, and it is nobody's any more.
    if isStandIn(holder) and recoveryOf(lock) >= 0 then heardOf(lock, string.sub(holder.id, 2)) end
    tellHolder(lock, holder, 'l')
  end
end
lock.holders, lock.frees = kept, true
settle(lock)
closeLock(lock)
return { taken, now }
