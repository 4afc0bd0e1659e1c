--- Gives a ballot the fence that a quorum agreed on, where this node had voted with another one.
--- KEYS[1] lockKey   the lock
--- KEYS[2] fenceKey  the slot group's last fence
--- ARGV[1] id: text        of the ballot
--- ARGV[2] fence: number   what was agreed on, the first of the reserved ones
--- ARGV[3] fences: number  how many are reserved
--- RETURNS 1 raised
--- RETURNS 0 lost
--- INVARIANT the counter never goes back, whatever becomes of the ballot
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/epoch

raiseFences({ fenceKey }, { string.format('%.0f', fence + fences - 1) })
local lock = parseLock(redis.call('GET', lockKey) or '', {})
local holder = holderOf(lock, id)
if not holder then return 0 end
holder.fence = fence
redis.call('SET', lockKey, formatLock(lock), 'PX', keepMsOf(lock))
return 1
