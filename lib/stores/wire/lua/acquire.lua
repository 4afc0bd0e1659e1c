--- Grants locks, or gives places in their queues, or refuses; for one request or for many.
--- KEYS[...] keys      for each request: the lock, its waiters, the slot group's last fence
--- ARGV[...] requests  for each: id (new for each request), leaseMs, terms (see below), who (owner and label, each - for none)
--- RETURNS text granted as asked  the fence, which is the server's time in µs
--- RETURNS 1 granted  now, fence, fences, 1 for write or 0 for read, end of the lease, 1 when others wait
--- RETURNS 2 waiting  now, ms until the present hold ends or -1 when others come first
--- RETURNS 3 busy     now, ms until the present hold ends
--- RETURNS 4 upgrade  now
--- RETURNS 5 late     now
--- RETURNS 6 full     now; the owner has as many holds of the lock as can be
--- RETURNS refused    the server's words: it refused something for this request's keys
--- RETURNS 10 more in place of 1 to 6 when the id to replace was not there any more
--- RETURNS a list of these when there are several requests
--- INVARIANT the same id asked for again gets the same grant or keeps the same place
--- INVARIANT a queue exists only while its lock does, so a lock that is not there is free
local keys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits

-- The terms of a request. The first three have a fixed width; a plain request wants one fence, owes no minHoldMs, has no grace and replaces
-- nothing. `queue` is 0 for who takes no place, 2 for who is passed over while nobody listens on its process's channel, else 1.
-- After `notAfter` nothing is done, `floor` is the highest fence that the caller has seen in the slot group.
--
--   <mode><queue><plain> <notAfter, 13 digits> <floor, 16 digits> <fences> <minHoldMs> <graceMs> <longestMs> <replaces>
local FIELDS = 4
local count = #requests / FIELDS
local replies, uncommon = {}, {}

-- The commonest case, before the functions for all others are made: a plain request for a free lock, and a clock that is ahead
-- of all fences before. Numbers of as many digits are compared as text, which is exact and cheap. What is otherwise is left to
-- the functions, also a refusal, which is a table.
local clock = time[1] .. string.sub('00000' .. time[2], -6)
local nowText = string.format(INSTANT, now)
for n = 1, count do
  local at = (n - 1) * FIELDS
  local lockKey, fenceKey, terms = keys[3 * n - 2], keys[3 * n], requests[at + 3]
  if nowText > string.sub(terms, 5, 17) then
    replies[n] = { 5, now }
  else
    local plain = string.sub(terms, 3, 3) == '1' and #clock == 16 and string.sub(terms, 19, 34) < clock and not redis.pcall('GET', lockKey)
    local last = plain and redis.pcall('GET', fenceKey)
    if plain and (not last or #last == 16 and last < clock) then
      redis.call('SET', fenceKey, clock)
      local leaseMs = requests[at + 2]
      local ending = string.format(INSTANT, now + leaseMs)
      local record = string.sub(terms, 1, 1) .. '00 ' .. ending .. ' ' .. requests[at + 1] .. ' ' .. clock .. ' 1 0 ' .. requests[at + 4]
      redis.call('SET', lockKey, record, 'PX', leaseMs + LOCK_GRACE_MS)
      replies[n] = clock
    else
      uncommon[#uncommon + 1] = n
    end
  end
end
if #uncommon == 0 then return count == 1 and replies[1] or replies end

--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/queue
--- @include shared/leave
--- @include shared/settle
--- @include shared/close-lock
--- @include shared/beside-owner
--- @include shared/refusal

-- Returns the code, and the holder when it is granted.
local function answer(lock, who, mode, leaseMs, queue)
  local own = holderOf(lock, who.id)
  if own then return 1, own end
  local waits, entered = keepPlace(lock, who.id)
  if waits then return 2 end
  if entered then return 1, entered end
  local kin = ownedBy(lock, who.owner)
  if kin and lock.mode == 'r' and mode == 'w' then return 4 end
  if kin and isFullFor(lock, who.owner) then return 6 end
  local lengthMs = math.max(leaseMs, who.minHoldMs)
  if kin then return 1, enter(lock, who, lengthMs, kin.fence) end
  if #lock.holders == 0 then
    lock.mode = mode
    return 1, enter(lock, who, lengthMs)
  end
  if lock.mode == 'r' and mode == 'r' and not firstListening(lock, 'w') then return 1, enter(lock, who, lengthMs) end
  if queue == '0' then return 3 end
  joinQueue(lock, who, mode, leaseMs, queue == '2' and ONLY_IF_HEARD or TAKES_ITS_TURN)
  return 2
end

local function grantOrPlace(lockKey, queueKey, fenceKey, id, lengthMs, terms, names)
  local mode, queue, floor, fences, minHoldMs, graceMs, longestMs, replaces = string.match(terms, '^(.)(.). %S+ (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  local owner, label = string.match(names, '^(%S+) (%S+)$')
  local leaseMs = tonumber(lengthMs)
  local text = redis.call('GET', lockKey) or ''
  local who = { id = id, fences = tonumber(fences), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), owner = owner, label = label }
  if owner ~= '-' and replaces == '-' then
    local fence, ending = joinAsText(text, lockKey, queueKey, who, math.max(leaseMs, who.minHoldMs), tonumber(longestMs))
    if fence then return { 1, now, fence, 1, 1, ending, tonumber(string.sub(text, 2, 2)) } end
  end
  local lock = parseLock(text, { lockKey, queueKey, fenceKey }, tonumber(floor), now, nowUs, tonumber(longestMs))
  local more = (replaces == '-' or leave(lock, replaces)) and 0 or 10
  lock.asking[id] = true
  settle(lock)
  local code, holder = answer(lock, who, mode, leaseMs, queue)
  closeLock(lock)
  if code == 1 then
    return { 1 + more, now, holder.fence, holder.fences, lock.mode == 'w' and 1 or 0, leaseEnd(holder), lock.queued and 1 or 0 }
  end
  if code == 2 then return { 2 + more, now, askAgainIn(lock, id) } end
  if code == 3 then return { 3 + more, now, lastEnd(lock) - now + 1 } end
  return { code + more, now }
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(grantOrPlace, keys[3 * n - 2], keys[3 * n - 1], keys[3 * n], unpack(requests, (n - 1) * FIELDS + 1, n * FIELDS)))
end
return count == 1 and replies[1] or replies
