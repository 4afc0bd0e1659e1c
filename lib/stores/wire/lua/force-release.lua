--- Takes a lock away from its holders, tells them, and lets in whose turn it is.
--- KEYS[1] lockKey   the lock
--- KEYS[2] queueKey  its waiters
--- KEYS[3] fenceKey  the slot group's last fence
--- ARGV[1] fence: number or nothing  of the holder to take it from, any of those reserved for it; or nothing for all holders
--- ARGV[2] floor: number  the highest fence that the caller has seen in the slot group
--- RETURNS 1 taken
--- RETURNS 0 no such holder
--- INVARIANT the first write deletes, so that it works on a full server
--- @bind

local text = redis.call('GET', lockKey)
if not text then return 0 end

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/queue
--- @include shared/settle
--- @include shared/close-lock

local lock = parseLock(text, { lockKey, queueKey, fenceKey }, floor, now, nowUs)
settle(lock)
local kept, taken = {}, 0
for _, holder in ipairs(lock.holders) do
  if fence and (fence < holder.fence or fence >= holder.fence + holder.fences) then
    kept[#kept + 1] = holder
  else
    taken = 1
    if not isReleased(holder) then lock.told[#lock.told + 1] = { holder.id, 'l ' .. holder.id } end
  end
end
lock.holders, lock.frees = kept, true
settle(lock)
closeLock(lock)
return taken
