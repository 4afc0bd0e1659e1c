--- Keeps the places of many waiters, and tells the grants whose message was lost.
--- KEYS[...] keys  for each waiter:
---   lockKey   the lock
---   queueKey  its waiters
---   fenceKey  the slot group's last fence
--- ARGV[...] requests  for each waiter:
---   id: text           of the waiter
---   floor: number      the highest fence that the caller has seen in the slot group
---   recoveryMs: number  how long nothing new is granted after the server forgot
---   known: text        what the server told the caller as its memory, or as many dashes
--- RETURNS all head: now  the server's time in ms
--- RETURNS each 0 gone: none
--- RETURNS each 1 granted: fence, fences, mode mode, end, contended flag  contended when others wait
--- RETURNS each 2 waiting: leftMs, holds text  until the present hold ends, or -1 when others come first, or 0 for a place from before the server forgot; holds says who holds it, and for how long (stand-in.lua)
--- RETURNS each refused: words text  what the server said to this waiter's keys
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/stand-in
--- @include shared/refusal
--- @request

local function grantOrPlace(lock, holder, id)
  local waits, isFromBefore = false, false
  if not holder then waits, holder, isFromBefore = keepPlace(lock, id, true) end
  if isFromBefore then return { 2, 0, '-' } end
  if holder then return { 1, whole(holder).fence, holder.fences, lock.mode == 'r' and 0 or 1, leaseEnd(holder), lock.queued and 1 or 0 } end
  return waits and { 2, askAgainIn(lock, id), lock.holds } or { 0 }
end

-- The waiters of one lock, which is read and written once however many they are. Returns their answers in order.
local function heartbeat(waiters)
  local lock, answers = openLock(waiters[1]), {}
  for _, waiter in ipairs(waiters) do
    lock.asking[waiter.id], lock.floor = true, math.max(lock.floor, waiter.floor)
  end
  settle(lock)
  local holders = holdersById(lock)
  lock.holds = holdsOf(lock)
  for n, waiter in ipairs(waiters) do answers[n] = grantOrPlace(lock, holders[waiter.id], waiter.id) end
  closeLock(lock)
  return answers
end

local byLock, locks = {}, {}
for n = 1, count do
  local waiter = requestOf(n)
  local waiters = byLock[waiter.lockKey]
  if not waiters then
    waiters = {}
    byLock[waiter.lockKey], locks[#locks + 1] = waiters, waiters
  end
  waiter.place, waiters[#waiters + 1] = n, waiter
end

local answers = {}
for _, waiters in ipairs(locks) do
  local found = orRefused(pcall(heartbeat, waiters))
  for n, waiter in ipairs(waiters) do answers[waiter.place] = found[1] == 'refused' and found or found[n] end
end
return { now, answers }
