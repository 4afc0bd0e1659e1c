--- Turns a write hold into a read hold and lets the queued readers in beside it.
--- KEYS[1] lockKey   the lock
--- KEYS[2] queueKey  its waiters
--- KEYS[3] fenceKey  the slot group's last fence
--- ARGV[1] id: text  of the holder
--- ARGV[2] floor: number  the highest fence that the caller has seen in the slot group
--- ARGV[3] recoveryMs: number  how long nothing new is granted after the server forgot
--- RETURNS 1 downgraded
--- RETURNS 0 lost
--- INVARIANT beside others of its owner, who still write, a hold stays stronger than it needs to be
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @request

local lock = openLock(request)
settle(lock)
local holder = holderOf(lock, id)
if holder and lock.mode == 'w' and #lock.holders == 1 then
  lock.mode = 'r'
  if lock.queued and recoveryOf(lock) == 0 then admit(lock, 'r') end
end
closeLock(lock)
return holder and 1 or 0
