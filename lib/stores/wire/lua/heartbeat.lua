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
--- RETURNS each 0 gone: none  filled up with zeros, as the next two are
--- RETURNS each 1 granted: fence, fences, mode mode, end, contended flag  contended when others wait
--- RETURNS each 2 waiting: leftMs, holds text  until the present hold ends, or -1 when others come first, or 0 for a place from before the server forgot; holds says who holds it, and for how long (stand-in.lua)
--- RETURNS each 3 refused: words text  what the server said to this waiter's keys
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/stand-in
--- @include shared/refusal
--- @request

local function keepWaiting(waiter)
  local text = redis.call('GET', waiter.lockKey)
  if not text then return { 0 } end
  local lock = parseLock(text, waiter)
  lock.asking[waiter.id] = true
  settle(lock)
  local holder, waits, isFromBefore = holderOf(lock, waiter.id), false, false
  if not holder then waits, holder, isFromBefore = keepPlace(lock, waiter.id, true) end
  closeLock(lock)
  if isFromBefore then return { 2, 0, '-' } end
  if holder then return { 1, holder.fence, holder.fences, lock.mode == 'r' and 0 or 1, leaseEnd(holder), lock.queued and 1 or 0 } end
  return waits and { 2, askAgainIn(lock, waiter.id), holdsOf(lock) } or { 0 }
end

return answersTo(count, requestOf, 6, keepWaiting)
