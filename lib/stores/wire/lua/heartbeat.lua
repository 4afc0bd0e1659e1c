--- Keeps the places of many waiters, and tells the grants whose message was lost.
--- KEYS[...] keys      for each waiter: the lock, its waiters, the slot group's last fence
--- ARGV[...] requests  for each waiter: its id, the highest fence the caller has seen in the slot group, the longest lease in ms
--- RETURNS [1]     now
--- RETURNS [2 + 6n] of the nth waiter, six numbers: 1 granted, fence, fences, 1 for write or 0 for read, end, 1 when others wait
--- RETURNS [2 + 6n] or 2 waiting, ms until the present hold ends or -1 when others come first, four zeros
--- RETURNS [2 + 6n] or 3 refused, the server's words for this waiter's keys, four zeros
--- RETURNS [2 + 6n] or 0 gone, five zeros
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/queue
--- @include shared/settle
--- @include shared/close-lock

local function grantOrPlace(lock, holder, id)
  local waits = false
  if not holder then waits, holder = keepPlace(lock, id) end
  if holder then return { 1, holder.fence, holder.fences, lock.mode == 'w' and 1 or 0, leaseEnd(holder), lock.queued and 1 or 0 } end
  return { waits and 2 or 0, waits and askAgainIn(lock, id) or 0, 0, 0, 0, 0 }
end

-- The waiters of one lock, which is read and written once however many they are. Returns their answers in order.
local function heartbeat(lockKeys, waiters)
  local text, answers = redis.call('GET', lockKeys[1]), {}
  if not text then return answers end
  local lock = parseLock(text, lockKeys, waiters.floor, now, nowUs, waiters.longestMs)
  for _, waiter in ipairs(waiters) do lock.asking[waiter.id] = true end
  settle(lock)
  local holders = holdersById(lock)
  for n, waiter in ipairs(waiters) do answers[n] = grantOrPlace(lock, holders[waiter.id], waiter.id) end
  closeLock(lock)
  return answers
end

local byLock, locks = {}, {}
for i = 1, #keys / 3 do
  local lockKey, floor = keys[3 * i - 2], tonumber(requests[3 * i - 1])
  local waiters = byLock[lockKey]
  if not waiters then
    waiters = { floor = floor, longestMs = tonumber(requests[3 * i]), keys = { lockKey, keys[3 * i - 1], keys[3 * i] } }
    byLock[lockKey], locks[#locks + 1] = waiters, waiters
  end
  waiters.floor = math.max(waiters.floor, floor)
  waiters[#waiters + 1] = { place = i, id = requests[3 * i - 2] }
end

local told = {}
for _, waiters in ipairs(locks) do
  local done, answers = pcall(heartbeat, waiters.keys, waiters)
  for n, waiter in ipairs(waiters) do
    told[waiter.place] = done and (answers[n] or { 0, 0, 0, 0, 0, 0 }) or { 3, answers, 0, 0, 0, 0 }
  end
end
local reply = { now }
for _, one in ipairs(told) do
  for _, field in ipairs(one) do reply[#reply + 1] = field end
end
return reply
