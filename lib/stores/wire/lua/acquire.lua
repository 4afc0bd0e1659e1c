--- Grants locks, or gives places in their queues, or refuses; for one request or for many.
--- KEYS[...] keys      for each request: the lock, its waiters, the slot group's last fence
--- ARGV[...] requests  for each: id (new for each request), mode (w or r), leaseMs, fences (how many to reserve), floor (highest fence the caller has seen in the slot group), notAfter (server ms after which to do nothing, 0 for none), queue (1 to take a place when the lock is busy, else 0), label and owner (or -), minHoldMs, replaces (an id to release in the same step, or -), longestMs (the longest lease that can be)
--- RETURNS text granted as asked  the fence, which is the server's time in µs
--- RETURNS 1 granted  now, fence, fences, 1 for write or 0 for read, end, 1 when others wait
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

local FIELDS = 12
local count = #requests / FIELDS
local replies, uncommon, replaced = {}, {}, {}

-- The commonest case, before the functions for all others are made: a free lock, one fence, and a clock that is ahead of
-- all fences before. Fences of as many digits are compared as text, which is exact and cheap. What has another length is left to
-- the functions, also a refusal: that is a table without items.
local clock = time[1] .. string.sub('00000' .. time[2], -6)
for n = 1, count do
  local at = (n - 1) * FIELDS
  local lockKey, fenceKey = keys[3 * n - 2], keys[3 * n]
  local leaseMs, floor, notAfter, replaces = requests[at + 3], requests[at + 5], requests[at + 6], requests[at + 11]
  if notAfter ~= '0' and now > tonumber(notAfter) then
    replies[n] = { 5, now }
  else
    local text = redis.pcall('GET', lockKey)
    if text and replaces ~= '-' and #text > 0 and string.sub(text, 2, 4) == '00 ' and string.sub(text, 19, 19 + #replaces) == replaces .. ' ' then
      redis.call('DEL', lockKey)
      replaced[n] = tonumber(string.sub(text, 5, 17)) >= now
      text = false
    end
    local plain = not text and (replaces == '-' or replaced[n]) and requests[at + 4] == '1' and requests[at + 10] == '0' and (floor == '0' or #floor == #clock and floor < clock)
    local last = plain and redis.pcall('GET', fenceKey)
    if plain and (not last or #last == #clock and last < clock) then
      redis.call('SET', fenceKey, clock)
      local ending = string.format(INSTANT, now + leaseMs)
      local record = requests[at + 2] .. '00 ' .. ending .. ' ' .. requests[at + 1] .. ' ' .. clock .. ' 1 0 ' .. requests[at + 9] .. ' ' .. requests[at + 8]
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
  if lock.mode == 'r' and mode == 'r' and not firstWaiter(lock, 'w') then return 1, enter(lock, who, lengthMs) end
  if queue == '0' then return 3 end
  joinQueue(lock, who, mode, leaseMs)
  return 2
end

local function grantOrPlace(replaced, lockKey, queueKey, fenceKey, id, mode, leaseMs, fences, floor, _, queue, label, owner, minHoldMs, replaces, longestMs)
  local text = redis.call('GET', lockKey) or ''
  local who = { id = id, fences = tonumber(fences), minHoldMs = tonumber(minHoldMs), owner = owner, label = label }
  if owner ~= '-' and replaces == '-' then
    local fence, ending = joinAsText(text, lockKey, queueKey, who, math.max(leaseMs, who.minHoldMs), tonumber(longestMs))
    if fence then return { 1, now, fence, 1, 1, ending, tonumber(string.sub(text, 2, 2)) } end
  end
  local lock = parseLock(text, { lockKey, queueKey, fenceKey }, tonumber(floor), now, nowUs, tonumber(longestMs))
  local more = (replaces == '-' or replaced or leave(lock, replaces)) and 0 or 10
  settle(lock)
  local code, holder = answer(lock, who, mode, tonumber(leaseMs), queue)
  closeLock(lock)
  if code == 1 then
    return { 1 + more, now, holder.fence, holder.fences, lock.mode == 'w' and 1 or 0, holder.ending, lock.queued and 1 or 0 }
  end
  if code == 2 then return { 2 + more, now, askAgainIn(lock, id) } end
  if code == 3 then return { 3 + more, now, lastEnd(lock) - now + 1 } end
  return { code + more, now }
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(grantOrPlace, replaced[n], keys[3 * n - 2], keys[3 * n - 1], keys[3 * n], unpack(requests, (n - 1) * FIELDS + 1, n * FIELDS)))
end
return count == 1 and replies[1] or replies
