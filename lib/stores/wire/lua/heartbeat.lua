--- Keeps the places of many waiters, and tells the grants whose message was lost.
--- KEYS[...] keys      for each waiter: the lock, its waiters, the slot group's last fence
--- ARGV[...] requests  for each waiter: its id, the highest fence the caller has seen in the slot group, the longest lease in ms
--- RETURNS [1]     now
--- RETURNS [2 + 6n] of the nth waiter, six numbers: 1 granted, fence, fences, 1 for write or 0 for read, end, 1 when others wait
--- RETURNS [2 + 6n] or 2 waiting, ms until the present hold ends or -1 when others come first, four zeros
--- RETURNS [2 + 6n] or 0 gone, five zeros
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/settle
--- @include shared/close-lock

local function heartbeat(lockKeys, id, floor, longestMs)
  local text = redis.call('GET', lockKeys[1])
  if not text then return { 0, 0, 0, 0, 0, 0 } end
  local lock = parseLock(text, lockKeys, floor, now, nowUs, longestMs)
  settle(lock)
  local holder, waits = holderOf(lock, id), false
  if not holder then waits, holder = keepPlace(lock, id) end
  closeLock(lock)
  if holder then return { 1, holder.fence, holder.fences, lock.mode == 'w' and 1 or 0, holder.ending, lock.queued and 1 or 0 } end
  return { waits and 2 or 0, waits and askAgainIn(lock, id) or 0, 0, 0, 0, 0 }
end

local reply = { now }
for i = 1, #keys / 3 do
  local floor, longestMs = tonumber(requests[3 * i - 1]), tonumber(requests[3 * i])
  local one = heartbeat({ keys[3 * i - 2], keys[3 * i - 1], keys[3 * i] }, requests[3 * i - 2], floor, longestMs)
  for _, number in ipairs(one) do reply[#reply + 1] = number end
end
return reply
