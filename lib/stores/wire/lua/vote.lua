--- Votes for a grant on one node of a Redlock, or against it; for one request or for many.
--- KEYS[...] keys  for each request:
---   lockKey   the lock
---   queueKey  unused: a node of a Redlock has marks in place of a queue (marks.lua)
---   fenceKey  the slot group's last fence
--- ARGV[...] requests  for each request; what the commonest case looks at comes first:
---   terms: <mode><plain> <notAfter> <proposal> <known> <keepMs> <id> <owner> <label> <fences> <minHoldMs> <graceMs> <waitedMs> <patienceMs>  who asks, and how
---     mode: mode                     how it wants to hold the lock
---     plain: flag                    whether it wants one fence, a lease of at most USUAL_LEASE_MS, owes no minHoldMs and has no grace
---     notAfter: number of 13 digits  server time in ms after which nothing is done
---     proposal: number of 16 digits  the least fence the caller can use
---     known: text of 30 letters      what the server told the caller as its memory on this connection, or as many dashes
---     keepMs: leaseMs + LOCK_GRACE_MS  how long the lease is; the key of a lock that is granted as asked is kept for LOCK_GRACE_MS longer
---     id: text                       of the ballot, new for each attempt
---     owner: encoded or -            whose requests share a lock
---     label: encoded or -            what an operator reads
---     fences: number                 how many to reserve
---     minHoldMs: number              how long the lock stays taken at least
---     graceMs: number                how long it stays taken after a lease that ended without a release
---     waitedMs: number               how long the request has waited; -1 when it does not wait
---     patienceMs: number             how long to keep the lock for it when its turn has come
--- RETURNS number granted as asked  server time in ms; the fence is the proposal, and nobody else waits
--- RETURNS 0 busy: now, leftMs  until the present hold ends, or -1 when it is somebody else's turn
--- RETURNS 1 granted: now, fence, leftMs, mode mode, shared flag, contended flag, memory text or nothing  until the lease ends; shared when the fence is that of its owner's hold; contended when others wait; memory where the caller did not know it
--- RETURNS 2 upgrade: now  the owner reads
--- RETURNS 3 late: now  after notAfter
--- RETURNS 4 closed: now  it may have forgotten something, and waits to be told the last fences
--- RETURNS 5 full: now  the owner has as many holds of the lock as can be
--- RETURNS refused        the server's words: it refused something for this request's keys
--- RETURNS a list of these when there are several requests
--- INVARIANT the same id asked for again gets the same vote, not prolonged
--- INVARIANT a request takes away no mark but its own
--- INVARIANT a free lock is not given to anybody before those who have waited longer had the time to ask for it
--- @bind

--- @include shared/server-time
--- @include shared/limits

local replies, uncommon = {}, nil

-- The commonest case, before the functions for all others are made: a plain request for a free lock that nobody waits for, and a
-- proposal above all fences before. Marks count only while their lock's key is there, which is kept for a while after the end of
-- a turn or a lease. Records and numbers are compared as text, and Redis is given texts as they came (acquire.lua). What is
-- otherwise is left to the functions, also a refusal, which is a table.
for n = 1, count do
  --- @bind lockKey, fenceKey, notAfter, plain of n
  if now > tonumber(notAfter) then
    replies[n] = { 3, now }
  else
    --- @bind mode, proposal, known, keepMs, id, owner, label of n
    local last = plain == '1' and redis.pcall('GET', fenceKey)
    local isNext = last and #last == 47 and last < proposal and tonumber(proposal) <= HIGHEST_FLOOR and string.sub(last, 18) == known
    local record = isNext and mode .. '00 ' .. string.format(INSTANT, now + keepMs - LOCK_GRACE_MS) .. ' ' .. id .. ' ' .. proposal .. ' 1 0 ' .. owner .. ' ' .. label
    local taken = record and redis.pcall('SET', lockKey, record, 'NX', 'PX', keepMs)
    if taken and taken.ok then
      redis.call('SET', fenceKey, proposal .. ' ' .. known)
      replies[n] = now
    else
      uncommon = uncommon or {}
      uncommon[#uncommon + 1] = n
    end
  end
end
if not uncommon then return count == 1 and replies[1] or replies end

--- @include shared/memory
--- @include shared/lock-record
--- @include shared/marks
--- @include shared/refusal
--- @request

local function refuse(lock, line, mark)
  if mark then addMark(line, mark) end
  local leftMs = #lock.holders > 0 and lastEnd(lock) - now + 1 or -1
  if #lock.holders == 0 then
    if line.turn then lock.holders = { line.turn } else giveTurn(lock, line) end
  elseif mark and not lock.marked then
    -- Whoever holds the lock hears at once that somebody waits for it, when that one is the first.
    lock.marked = true
    for _, holder in ipairs(lock.holders) do tellHolder(lock, holder, 'c') end
  end
  -- A full server may refuse marks: who was refused asks again without one.
  pcall(closeLock, lock)
  writeLine(line)
  return { 0, now, leftMs }
end

local function vote(request)
  local id, mode, owner, waitedMs = request.id, request.mode, request.owner, request.waitedMs
  request.recoveryMs = UNTIL_TOLD_MS
  local lock = parseLock(redis.call('GET', request.lockKey) or '', request)
  if recoveryOf(lock) > 0 then return { 4, now } end
  -- The node's own clock stays out of the fence: then nodes that saw the same grants answer the same number.
  lock.floor, nowUs = request.proposal - 1, 0
  local own, kin = holderOf(lock, id), ownedBy(lock, owner)
  local shared = not own and kin and 1 or 0
  if not own then
    if kin and lock.mode == 'r' and mode == 'w' then return { 2, now } end
    if kin and isFullFor(lock, owner) then return { 5, now } end
    local line, waiter = openLine(lock), string.match(id, '^(.*)/') or id
    dropMark(line, waiter)
    local since = now - math.max(waitedMs, 0)
    local fits = kin or #lock.holders == 0 or lock.mode == 'r' and mode == 'r'
    if not kin and not (fits and goesFirst(line, waiter, mode, since)) then
      return refuse(lock, line, waitedMs >= 0 and { ending = now + MARK_MS, since = since, patience = request.patienceMs, mode = mode, id = waiter })
    end
    if not kin then lock.mode = mode end
    own = enter(lock, request, math.max(request.leaseMs, request.minHoldMs), kin and kin.fence)
    markWaiting(lock, line)
    closeLock(lock)
    writeLine(line)
  end
  return { 1, now, own.fence, leaseEnd(own) - now, lock.mode == 'w' and 1 or 0, shared, lock.marked and 1 or 0, lock.memory ~= request.known and lock.memory or nil }
end

for _, n in ipairs(uncommon) do
  local request = requestOf(n)
  request.leaseMs = request.keepMs - LOCK_GRACE_MS
  replies[n] = orRefused(pcall(vote, request))
end
return count == 1 and replies[1] or replies
