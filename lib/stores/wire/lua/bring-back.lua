--- Brings leases back to a server that has forgotten them; what it has not forgotten it renews; for one or for many.
--- KEYS[...] keys  for each lease:
---   lockKey   the lock
---   queueKey  its waiters
---   fenceKey  the slot group's last fence
--- ARGV[...] requests  for each lease:
---   id: text  of the holder
---   terms: <mode> <notAfter> <leaseMs> <fence> <fences> <minHoldMs> <graceMs> <recoveryMs> <knownBy> <ticketId>  what the lease is
---     mode: hold          how it holds the lock
---     notAfter: number    server time in ms after which its holder does not trust it
---     leaseMs: number     how long it lasts from now
---     fence: number       the first of its fences
---     fences: number      how many it has
---     minHoldMs: number   how long the lock stays taken at least
---     graceMs: number     how long the lock stays taken after a lease that ended without a release
---     recoveryMs: number  how long nothing new is granted after the server forgot
---     knownBy: text or -  the memory of the server that knew the lease last
---     ticketId: text or -  the ticket of which the lease was made
---   who: <owner> <label>  for whom
---     owner: encoded or -  whose requests share a lock; of a hold with a permit how many there are
---     label: encoded or -  what an operator reads
--- RETURNS all head: now  the server's time in ms
--- RETURNS each 0 lost: none
--- RETURNS each 1 held: leftMs, contended flag, memory text  leftMs is the time until it ends, without its grace; contended when others wait; memory is the one that knows it now
--- RETURNS each 2 late: none  after notAfter: nothing was done
--- RETURNS each refused: words text  what the server said to this lease's keys
--- INVARIANT a lease that the server knew with the memory that it still has was lost: it ended, or was taken away
--- INVARIANT while the server recovers the newer fence wins; after that whoever has the lock
--- INVARIANT a permit that went to a ticket does not come back by a copy of an earlier request
--- INVARIANT a ticket of which a lease was made is gone when the lease has come back
--- INVARIANT the last fence is never below that of a lease that was brought back
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/stand-in
--- @include shared/refusal
--- @request

-- Whether a lease can stand beside those who hold the lock. A failover may bring back the records of holders that ended since:
-- while the server recovers they are not counted against those who bring back a permit, and nobody new is let in. Holds of one owner
-- that have each other beside them share a fence, so another fence of the owner is of a hold that ended before this lease was granted.
local function fitsBeside(lock, lease)
  if #lock.holders == 0 then return true end
  if permitsOf(lease) ~= lock.permits then return false end
  if lock.mode == 'p' then return #lock.holders < lock.permits or lock.recoversForMs > 0 end
  if lock.mode == 'r' then return lease.mode == 'r' end
  local kin = ownedBy(lock, lease.owner)
  if kin then return kin.fence == lease.fence or lock.recoversForMs <= 0 end
  -- Those who were told of with its fence have the lock beside it, as holds of the same owner.
  for _, holder in ipairs(lock.holders) do
    if not isStandIn(holder) or holder.fence ~= lease.fence then return false end
  end
  return lease.owner ~= '-'
end

-- Of a lock with permits the stand-in that ends first gives its permit to a holder that comes back: the others may stand for holders that come
-- later, and nobody new is let in beside as many as there are permits. Else what the holder knows of its lock counts, and not what others were told.
local function displaceStandIns(lock, lease)
  local first
  for _, holder in ipairs(lock.holders) do
    if isStandIn(holder) and (not first or holder.ending < first.ending) then first = holder end
  end
  if first and lock.mode == 'p' and permitsOf(lease) == lock.permits then
    dropStandIns(lock, string.sub(first.id, 2))
  else
    dropStandIns(lock)
  end
end

-- A failover may bring back the record of an earlier holder, whose fence is lower; nobody was let in since.
local function makeRoom(lock, lease)
  for _, holder in ipairs(lock.holders) do
    if whole(holder).fence + holder.fences > lease.fence then return false end
  end
  for _, holder in ipairs(lock.holders) do tellHolder(lock, holder, 'l') end
  lock.holders = {}
  return true
end

-- True if this permit has gone to a ticket since. Each permit has a fence of its own, and a ticket takes that over.
local function wasHandedOff(lock, lease)
  for _, holder in ipairs(lock.holders) do
    if lock.mode == 'p' and whole(holder).fence == lease.fence and not isStandIn(holder) then return true end
  end
end

-- Returns the holder, or nothing when the lock is somebody else's.
local function enterAgain(lock, lease)
  dropStandIns(lock, string.sub(RECOVERY, 2))
  if not fitsBeside(lock, lease) or lock.mode == 'p' and #lock.holders >= lock.permits then displaceStandIns(lock, lease) end
  if not fitsBeside(lock, lease) and not (lock.recoversForMs > 0 and makeRoom(lock, lease)) then return nil end
  if #lock.holders == 0 then lock.mode, lock.permits = lease.mode, permitsOf(lease) end
  local holder = enter(lock, lease, math.max(lease.leaseMs, lease.minHoldMs), lease.fence)
  holder.fences = lease.fences
  return holder
end

local function bringBack(lease)
  if now > lease.notAfter then return { 2 } end
  lease.floor = lease.fence + lease.fences - 1
  local lock = openLock(lease)
  local recoversForMs = recoveryOf(lock)
  local holder = holderOf(lock, lease.id)
  if lock.memory ~= lease.knownBy then heardOf(lock, lease.id) end
  if holder then
    holder.longMs = math.max(holder.longMs, longMsOf(lease.leaseMs))
    holder.ending = math.max(holder.ending, now + lease.leaseMs + holder.graceMs, holder.minEnd + holder.graceMs)
    -- Nodes of a Redlock may vote with different fences, and agree on the highest, or on that of the owner's hold which is shared.
    holder.fence = lease.fence
    -- The record may be from before the downgrade of its hold, and other readers come back as well.
    if recoversForMs > 0 and lease.mode == 'r' and #lock.holders == 1 then lock.mode = 'r' end
  else
    settle(lock)
    if lock.memory ~= lease.knownBy and not wasHandedOff(lock, lease) then
      removeHolder(lock, lease.ticketId, true)
      local stoodIn = dropStandIns(lock, lease.id)
      holder = enterAgain(lock, lease)
      if stoodIn and not holder then settle(lock) end
    end
  end
  if holder and lease.owner ~= '-' and lock.mode ~= 'p' then holder.heardOf = now end
  closeLock(lock)
  if not holder then return { 0 } end
  return { 1, leaseEnd(holder) - now, lock.queued and 1 or 0, lock.memory }
end

local answers = {}
for n = 1, count do answers[n] = orRefused(pcall(bringBack, requestOf(n))) end
return { now, answers }
