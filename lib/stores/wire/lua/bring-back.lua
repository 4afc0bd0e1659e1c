--- Brings leases back to a server that has forgotten them; what it has not forgotten it renews; for one or for many.
--- KEYS[...] keys      for each lease: the lock, its waiters, the slot group's last fence
--- ARGV[...] requests  for each: the holder's id; and with spaces between: mode (w or r), notAfter (server ms after which its holder does not trust it), leaseMs, fence, fences, minHoldMs (what is left of it), longestMs, recoveryMs, the memory that knew the lease or -, owner and label (or -)
--- RETURNS [1] now
--- RETURNS [...] of the nth lease, four: 1 held, ms until it ends, 1 when others wait else 0, the memory that knows it
--- RETURNS [...] or 0 lost, three zeros
--- RETURNS [...] or 2 late, three zeros: nothing was done
--- RETURNS [...] or 3 refused, the server's words for this lease's keys, two zeros
--- INVARIANT a lease that the server knew with the memory that it still has was lost: it ended, or was taken away
--- INVARIANT while the server recovers the newer fence wins; after that whoever has the lock
--- INVARIANT the last fence is never below that of a lease that was brought back
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/close-lock

-- Whether a lease can stand beside those who hold the lock.
local function fitsBeside(lock, lease)
  if #lock.holders == 0 then return true end
  if lock.mode == 'r' then return lease.mode == 'r' end
  return ownedBy(lock, lease.owner) ~= nil
end

-- A failover may bring back the record of an earlier holder, whose fence is lower; nobody was let in since.
local function makeRoom(lock, lease)
  for _, holder in ipairs(lock.holders) do
    if holder.fence + holder.fences > lease.fence then return false end
  end
  for _, holder in ipairs(lock.holders) do
    if not isReleased(holder) then lock.told[#lock.told + 1] = { holder.id, 'l ' .. holder.id } end
  end
  lock.holders = {}
  return true
end

local function dropPlaceholder(lock)
  local _, position = holderOf(lock, RECOVERY)
  if position then table.remove(lock.holders, position) end
end

local function enterAgain(lock, lease)
  if #lock.holders == 0 then lock.mode = lease.mode end
  local holder = {
    ending = lock.now + lease.leaseMs, id = lease.id, fence = lease.fence, fences = lease.fences,
    minEnd = lease.minHoldMs > 0 and lock.now + lease.minHoldMs or 0, owner = lease.owner, label = lease.label,
  }
  lock.holders[#lock.holders + 1] = holder
  return holder
end

local function bringBack(lockKey, queueKey, fenceKey, id, terms)
  local mode, notAfter, leaseMs, fence, fences, minHoldMs, longestMs, recoveryMs, known, owner, label =
    string.match(terms, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  if now > tonumber(notAfter) then return { 2, 0, 0, 0 } end
  local memory, recoversForMs = readMemory(fenceKey, '-', 0, tonumber(recoveryMs))
  local lock = parseLock(redis.call('GET', lockKey) or '', { lockKey, queueKey, fenceKey }, 0, now, nowUs, tonumber(longestMs))
  local holder = holderOf(lock, id)
  if holder then
    holder.ending = math.max(holder.ending, now + leaseMs, holder.minEnd)
  else
    if memory == known then return { 0, 0, 0, 0 } end
    local lease = {
      id = id, mode = mode, leaseMs = tonumber(leaseMs), fence = tonumber(fence), fences = tonumber(fences),
      minHoldMs = tonumber(minHoldMs), owner = owner, label = label,
    }
    dropPlaceholder(lock)
    if not fitsBeside(lock, lease) and not (recoversForMs > 0 and makeRoom(lock, lease)) then return { 0, 0, 0, 0 } end
    raiseLast(fenceKey, lease.fence + lease.fences - 1)
    holder = enterAgain(lock, lease)
  end
  closeLock(lock)
  return { 1, holder.ending - now, lock.queued and 1 or 0, memory }
end

local reply = { now }
for n = 1, #requests / 2 do
  local done, told = pcall(bringBack, keys[3 * n - 2], keys[3 * n - 1], keys[3 * n], requests[2 * n - 1], requests[2 * n])
  if not done then told = { 3, told, 0, 0 } end
  for _, field in ipairs(told) do reply[#reply + 1] = field end
end
return reply
