--- Grants locks, or gives places in their queues, or refuses; for one request or for many.
--- KEYS[...] keys  for each request:
---   lockKey   the lock
---   queueKey  its waiters; a node of a Redlock has marks in their place
---   fenceKey  the slot group's last fence
--- ARGV[...] requests  for each request; what the commonest case looks at comes first:
---   terms: <mode><queue><needsListener><plain><takes> <notAfter> <floor> <known> <keepMs> <id> <owner> <label> <fences> <minHoldMs> <graceMs> <recoveryMs> <replaces> <told> <mark>  who asks, and how
---     mode: hold                    how it wants to hold the lock
---     queue: flag                   whether it takes a place in the queue when the lock is busy
---     needsListener: flag           whether others go first while nobody listens on the channel of its process
---     plain: flag                   whether it wants one fence, a lease of at most USUAL_LEASE_MS, owes no minHoldMs, has no grace, replaces nothing, and was told of no holder by an earlier memory
---     takes: taking                 what it gets from the id to replace: its permit, before those who wait; or all of its hold, as a ticket in its place or beside it; or that of a ticket; or nothing. Or the floor as its fence, in place of the clock: a vote on a node of a Redlock
---     notAfter: number of 13 digits  server time in ms after which nothing is done
---     floor: number of 16 digits    the highest fence that the caller has seen in the slot group; of a vote the least fence that it can use
---     known: text of 30 letters     what the server told the caller as its memory on this connection, or as many dashes
---     keepMs: leaseMs + LOCK_GRACE_MS  how long the lease is; the key of a lock that is granted as asked is kept for LOCK_GRACE_MS longer
---     id: text                      of who asks, new for each request
---     owner: encoded or -           whose requests share a lock; of a request for a permit how many there are
---     label: encoded or -           what an operator reads
---     fences: number                how many to reserve
---     minHoldMs: number             how long the lock stays taken at least; of who takes a ticket the last server time in ms at which that can be taken
---     graceMs: number               how long the lock stays taken after a lease that ended without a release
---     recoveryMs: number            how long nothing new is granted after the server forgot
---     replaces: text or -           an id to release in the same step
---     told: text or -               how many ms ago the caller was told who holds the lock, a comma, and what it was told (stand-in.lua)
---     mark: text or -               what a vote leaves of its request if that is refused and waits (marks.lua)
--- RETURNS text granted as asked  the server's time in µs, which is the fence, except for a vote
--- RETURNS 0 gone: now, memory text  the id from which it takes the hold is not there
--- RETURNS 1 granted: now, fence, fences, mode mode, end, contended flag, memory text or nothing  fences is 0 for a vote that shares the fence of its owner's hold; the end is that of the lease, without its grace; contended when others wait; memory where the caller did not know it
--- RETURNS 2 waiting: now, leftMs, holds text  until the present hold ends, or -1 when others come first; holds says who holds it, and for how long (stand-in.lua)
--- RETURNS 3 busy: now, leftMs, holds text  until the present hold ends, or the turn for which a node keeps the lock
--- RETURNS 4 upgrade: now  the owner reads
--- RETURNS 5 late: now  after notAfter
--- RETURNS 6 full: now  the owner has as many holds of the lock as can be
--- RETURNS 7 recovering: now, leftMs  until something new is granted, for the server may have forgotten who has the lock
--- RETURNS 8 permits: now, permits  those who hold or wait name so many permits, or 0 for none, and this request does not
--- RETURNS 9 taken: now, fence, fences, mode mode, end, contended flag, memory text, owner encoded, permits, minHoldMs  as granted, and what was taken with the hold; permits that the lock has, or 0; minHoldMs is what is left of it
--- RETURNS refused    the server's words: it refused something for this request's keys
--- RETURNS 10 more in place of 1 to 8 when the id to replace was not there any more, which does not matter to them
--- RETURNS a list of these when there are several requests
--- INVARIANT the same id asked for again gets the same grant or keeps the same place
--- INVARIANT who waited or was refused before the server forgot is not granted the lock before the end that it was told, unless the holder was heard of
--- INVARIANT what is taken over changes hands in one step: nobody is let in, the mode, owner and permit stay, and what minHoldMs owes
--- INVARIANT a ticket is taken once, and not after its time; the fence rises then, unless other holds of the same owner go on, which share theirs
--- INVARIANT beside a hold that stays, a copy of the request that comes after the ticket was taken makes it anew, so it must be late
--- INVARIANT a queue exists only while its lock does, so a lock that is not there is free
--- INVARIANT on a node of a Redlock a request takes away no mark but its own, and a free lock goes to nobody before those who have waited longer had the time to ask for it
--- @bind

--- @include shared/server-time
--- @include shared/limits

-- The codes of RETURNS; two more stand beside what finds them (lock-record.lua).
local GONE, GRANTED, WAITING, BUSY, LATE, RECOVERING, PERMITS, TAKEN = 0, 1, 2, 3, 5, 7, 8, 9
local REPLACED_LOST = 10 -- is added to them

-- The commonest case, before the functions for all others are made: a plain request for a free lock, and a clock, or the floor of
-- a vote, that is ahead of all fences before. Numbers of as many digits are compared as text, which is exact and cheap, and Redis is
-- given texts as they came, because it writes a number that a script computed digit by digit. Marks count only while their lock's
-- key is there. What is otherwise is left to the functions, also a refusal, which is a table.
local clock = time[1] .. string.sub('00000' .. time[2], -6)
local isUsual = #clock == 16
local nowText = isUsual and string.sub(clock, 1, 13) or string.format(INSTANT, now)
local replies, uncommon = {}, nil
for n = 1, count do
  --- @bind lockKey, fenceKey, notAfter, plain of n
  if nowText > notAfter then
    replies[n] = { LATE, now }
  else
    --- @bind mode, takes, floor, known, keepMs, id, owner, label of n
    local isVote = takes == 'f'
    local fence = isVote and floor or clock
    local last = isUsual and plain == '1' and not redis.pcall('GET', lockKey) and redis.pcall('GET', fenceKey)
    -- A record of this length has no `open at`. It begins with the last fence, and what follows that makes it greater than the
    -- fence alone, so the whole record can be compared. In a Cluster the node has to be asked who it is (memory.lua).
    if
      last
      and #last == 47
      and last < fence
      and (isVote and tonumber(floor) <= HIGHEST_FLOOR or floor <= last)
      and string.sub(last, 18) == known
      and (string.sub(known, 17, 17) == ':' or string.sub(redis.call('CLUSTER', 'MYID'), 1, 8) == string.sub(known, 9, 16))
    then
      redis.call('SET', fenceKey, fence .. ' ' .. known)
      redis.call('SET', lockKey, mode .. '00 ' .. now + keepMs - LOCK_GRACE_MS .. ' ' .. id .. ' ' .. fence .. ' 1 0 ' .. owner .. ' ' .. label, 'PX', keepMs)
      replies[n] = clock
    else
      uncommon = uncommon or {}
      uncommon[#uncommon + 1] = n
    end
  end
end
if not uncommon then return count == 1 and replies[1] or replies end

--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/stand-in
--- @include shared/refusal
--- @request

local function granted(lock, request, holder)
  local contended = (lock.queued or lock.marked) and 1 or 0
  return { GRANTED, now, holder.fence, holder.fences, lock.mode == 'r' and 0 or 1, leaseEnd(holder), contended, lock.memory ~= request.known and lock.memory or nil }
end

local function waiting(lock, request)
  return { WAITING, now, askAgainIn(lock, request.id), holdsOf(lock, request) }
end

local function answer(lock, request)
  local id, mode, permits = request.id, request.mode, permitsOf(request)
  local own = holderOf(lock, id)
  if own then return granted(lock, request, own) end
  local waits, entered = keepPlace(lock, id)
  if waits then return waiting(lock, request) end
  if entered then return granted(lock, request, entered) end
  local recovers, isFree = recoveryOf(lock) > 0, #lock.holders == 0
  -- Behind the stand-ins of those who held the lock it may wait in the queue, in which it was before.
  if recovers and not lock.standsIn then return { RECOVERING, now, lock.recoversForMs } end
  if not isFree and permits ~= lock.permits then return { PERMITS, now, lock.permits } end
  if not recovers then
    local refusal, fence = besideOwner(lock, request)
    if refusal and refusal > 0 then return { refusal, now } end
    if isFree then lock.mode, lock.permits = mode, permits end
    -- Who waited for a free permit has it already.
    if refusal or isFree or #lock.holders < permits or lock.mode == 'r' and mode == 'r' and not firstListening(lock, 'w') then
      return granted(lock, request, enter(lock, request, math.max(request.leaseMs, request.minHoldMs), fence))
    end
  end
  if not request.queue then return { BUSY, now, endsOf(lock) - now + 1, holdsOf(lock, request) } end
  joinQueue(lock, request)
  return waiting(lock, request)
end

-- Puts a request into the place of the holder from which it takes the hold; nothing where that is not there. A ticket has all that is known
-- of the hold, but for its time: what minHoldMs keeps taken beyond that stands as its grace, in which nobody takes it.
local function takeOver(lock, request)
  local holder, position = holderOf(lock, request.replaces)
  -- A hold whose fence the giver has not seen was taken anew by a late copy of its request, after the ticket was taken.
  if not holder or request.takes ~= 't' and holder.fence > lock.floor then return nil end
  local heir = {}
  for field, value in pairs(holder) do heir[field] = value end
  heir.id, heir.ending = request.id, math.max(now + request.leaseMs, holder.minEnd)
  heir.longMs = math.max(holder.longMs, longMsOf(request.leaseMs))
  if request.takes == 't' then
    if math.min(request.minHoldMs, leaseEnd(holder)) < now then return nil end
    if lock.recoversForMs > 0 then return nil, lock.recoversForMs end
    holder.owner = '-' -- its own fence is not shared
    local shared = heir.owner ~= '-' and lock.mode ~= 'p' and fenceToShare(lock, heir.owner)
    heir.fence, heir.fences = shared or nextFence(lock.fenceKey, math.max(lock.floor, holder.fence + holder.fences - 1), 1), 1
    heir.label, heir.graceMs, heir.ending = request.label, request.graceMs, heir.ending + request.graceMs
  else
    heir.graceMs = heir.ending - now - request.leaseMs
  end
  lock.holders[request.takes == 'b' and #lock.holders + 1 or position] = heir
  lock.frees = true -- on a full server too a hold leaves its process
  return heir
end

local function takeHold(lock, request)
  settle(lock)
  local holder, recoversForMs = holderOf(lock, request.id), nil
  if not holder then holder, recoversForMs = takeOver(lock, request) end
  -- A request that adopts is refused for good: others may tell of a hold that an earlier memory gave it. One that makes a ticket does not say
  -- so, because the ticket may be on its way to whoever adopts it.
  if not holder and not recoversForMs and request.takes == 't' and takeAway(lock, request.id) then settle(lock) end
  closeLock(lock)
  if recoversForMs then return { RECOVERING, now, recoversForMs } end
  if not holder then return { GONE, now, lock.memory } end
  local reply = granted(lock, request, holder)
  reply[1], reply[8] = TAKEN, lock.memory
  reply[9], reply[10], reply[11] = lock.mode == 'p' and '-' or holder.owner, lock.permits, math.max(0, holder.minEnd - now)
  return reply
end

-- Takes away the lease that a request replaces; whether it was there. Its permit goes on to a request that says so, before those who
-- wait: for a short time a process may hand it on among its callers. What the request's own id was granted owes no minHoldMs,
-- because no work has begun under it.
local function replaceLease(lock, request)
  local handsOn = request.takes == 'p' and lock.permits == permitsOf(request) and holderOf(lock, request.replaces) and not holderOf(lock, request.id)
  local there = takeAway(lock, request.replaces, request.replaces == request.id)
  if handsOn and #lock.holders < lock.permits and recoveryOf(lock) == 0 then
    takeOut(lock, request.id)
    enter(lock, request, math.max(request.leaseMs, request.minHoldMs))
  end
  return there
end

local function grantOrPlace(request)
  local lock = openLock(request)
  local recoversForMs = recoveryOf(lock)
  if request.takes ~= 'n' and request.takes ~= 'p' then return takeHold(lock, request) end
  local isReplaced = request.replaces == '-' or replaceLease(lock, request)
  if request.queue and (recoversForMs > 0 or holderOf(lock, '~' .. request.id)) then wasForgotten(lock, request.id) end
  lock.asking[request.id], lock.witness = true, request.id
  lock.standsIn = request.told ~= '-' and standIn(lock, request)
  settle(lock)
  local reply = answer(lock, request)
  -- Most refusals change nothing. An end that was cut is written, because the next request would cut it to a later one.
  if reply[1] <= WAITING or request.replaces ~= '-' or recoversForMs > 0 or lock.standsIn or wasCut or #lock.messages > 0 then closeLock(lock) end
  if not isReplaced then reply[1] = reply[1] + REPLACED_LOST end
  return reply
end

-- A node of a Redlock is asked for votes, and for nothing else beside them.
local answerTo = grantOrPlace
--- @bind takes of 1
if takes == 'f' then
--- @include shared/marks

local function refuse(lock, line, mark)
  if mark then addMark(line, mark) end
  if #lock.holders == 0 then
    keepTurn(lock, line)
  elseif mark and not lock.marked then
    -- Whoever holds the lock hears at once that somebody waits for it, when that one is the first.
    lock.marked = true
    for _, holder in ipairs(lock.holders) do tellHolder(lock, holder, 'c') end
  end
  -- A full server may refuse marks: who was refused asks again without one.
  pcall(closeLock, lock)
  writeLine(line)
  return { BUSY, now, endsOf(lock) - now + 1, '-' }
end

local function vote(request)
  local id, mode, owner, proposal = request.id, request.mode, request.owner, request.floor
  request.floor = nil
  local lock = openLock(request)
  if recoveryOf(lock) > 0 then return { RECOVERING, now, lock.recoversForMs } end
  -- The node's own clock stays out of the fence: then nodes that saw the same grants answer the same number.
  lock.floor, nowUs = proposal - 1, 0
  local own, kin = holderOf(lock, id), ownedBy(lock, owner)
  local shares = not own and kin
  if not own then
    local refusal = besideOwner(lock, request)
    if refusal and refusal > 0 then return { refusal, now } end
    local line, mark, waiter = openLine(lock), markOf(request), string.match(id, '^(.*)/') or id
    dropMark(line, waiter)
    if not kin then
      local fits = #lock.holders == 0 or lock.mode == 'r' and mode == 'r'
      if not (fits and goesFirst(line, waiter, mode, mark and mark.since or now)) then return refuse(lock, line, mark) end
      lock.mode = mode
    end
    own = enter(lock, request, math.max(request.leaseMs, request.minHoldMs), kin and kin.fence)
    markWaiting(lock, line)
    closeLock(lock)
    writeLine(line)
  end
  local reply = granted(lock, request, own)
  if shares then reply[4] = 0 end
  return reply
end
answerTo = vote
end

for _, n in ipairs(uncommon) do
  local request = requestOf(n)
  request.leaseMs = request.keepMs - LOCK_GRACE_MS
  replies[n] = orRefused(pcall(answerTo, request))
end
return count == 1 and replies[1] or replies
