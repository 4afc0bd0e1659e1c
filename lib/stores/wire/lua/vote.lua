--- Votes for a grant on one node of a Redlock, or against it; for one request or for many.
--- KEYS[...] keys  for each request:
---   lockKey   the lock
---   fenceKey  the slot group's last fence
---   marksKey  the marks of those who wait
---   epochKey  since when this node remembers
--- ARGV[...] requests  for each request; what the commonest case looks at comes first:
---   terms: <mode><plain> <notAfter> <proposal> <runId> <keepMs> <id> <owner> <label> <fences> <minHoldMs> <graceMs> <maxLeaseMs> <waitedMs> <patienceMs> <process>  who asks, and how
---     mode: mode                     how it wants to hold the lock
---     plain: flag                    whether it wants one fence, owes no minHoldMs and has no grace
---     notAfter: number of 13 digits  server time in ms after which nothing is done
---     proposal: number of 16 digits  the least fence the caller can use
---     runId: text of 40 letters      of the server, as it told on this connection, or as many dashes
---     keepMs: leaseMs + LOCK_GRACE_MS  how long the lease is; the key of a lock that is granted as asked is kept for LOCK_GRACE_MS longer
---     id: text                       of the ballot, new for each attempt
---     owner: encoded or -            whose requests share a lock
---     label: encoded or -            what an operator reads
---     fences: number                 how many to reserve
---     minHoldMs: number              how long the lock stays taken at least
---     graceMs: number                how long it stays taken after a lease that ended without a release
---     maxLeaseMs: number             how long a node that forgot stays out
---     waitedMs: number               how long the process has waited; -1 when it does not wait, -2 when it has the lock already, on other nodes
---     patienceMs: number             how long to keep the lock for it when its turn has come
---     process: text                  of the caller
--- RETURNS number granted as asked  server time in ms; the fence is the proposal, and nobody else waits
--- RETURNS 0 busy: now, leftMs  until the present hold ends, or -1 when it is somebody else's turn
--- RETURNS 1 granted: now, fence, leftMs, mode mode, shared flag, next text or nothing  until the lease ends; shared when the fence is that of its owner's hold; next is the process that has waited longest, if others wait
--- RETURNS 2 upgrade: now  the owner reads
--- RETURNS 3 late: now  after notAfter
--- RETURNS 4 quarantined: now, leftMs  until all that this node may have forgotten has ended
--- RETURNS 5 not admitted: now  it waits to be told the last fences
--- RETURNS 6 full: now  the owner has as many holds of the lock as can be
--- RETURNS refused        the server's words: it refused something for this request's keys
--- RETURNS a list of these when there are several requests
--- INVARIANT the same id asked for again gets the same vote, not prolonged
--- INVARIANT a request takes away no mark but that of its own process and mode, and only when it is granted or waits itself
--- INVARIANT a free lock is not given to anybody before those who have waited longer had the time to ask for it, but to who has it already on other nodes
--- INVARIANT the keys need not share a slot: a node is a single server, never a Cluster
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence

local replies, uncommon = {}, nil

-- Whether this is the incarnation of the server that the caller knows, and it forgot nothing: asking the server who it is
-- costs more than all the rest.
local function remembers(epochKey, runId)
  local epoch = redis.call('GET', epochKey) or ''
  return string.sub(epoch, -2) == ' 1' and string.sub(epoch, 1, #runId + 1) == runId .. ' '
end

-- The commonest case, before the functions for all others are made: a plain request for a free lock that nobody waits for, and a
-- proposal above all fences before. Marks count only while their lock's key is there, which is kept for a while after the end of
-- a turn or a lease. Numbers of as many digits are compared as text, and Redis is given texts as they came (acquire.lua). What is
-- otherwise is left to the functions, also a refusal, which is a table.
for n = 1, count do
  --- @bind lockKey, fenceKey, epochKey, notAfter, plain of n
  if now > tonumber(notAfter) then
    replies[n] = { 3, now }
  else
    --- @bind mode, proposal, runId, keepMs, id, owner, label of n
    local last = plain == '1' and redis.pcall('GET', fenceKey)
    local isNext = last and #last == 16 and last < proposal and tonumber(proposal) <= HIGHEST_FLOOR and remembers(epochKey, runId)
    local record = isNext and mode .. '00 ' .. string.format(INSTANT, now + keepMs - LOCK_GRACE_MS) .. ' ' .. id .. ' ' .. proposal .. ' 1 0 ' .. owner .. ' ' .. label
    local taken = record and redis.pcall('SET', lockKey, record, 'NX', 'PX', keepMs)
    if taken and taken.ok then
      redis.call('SET', fenceKey, proposal)
      replies[n] = now
    else
      uncommon = uncommon or {}
      uncommon[#uncommon + 1] = n
    end
  end
end
if not uncommon then return count == 1 and replies[1] or replies end

--- @include shared/lock-record
--- @include shared/epoch
--- @include shared/marks
--- @include shared/refusal
--- @request

local function granted(lock, holder, shared, waiting)
  return { 1, now, holder.fence, leaseEnd(holder) - now, lock.mode == 'w' and 1 or 0, shared and 1 or 0, waiting or nil }
end

local function keepRecord(lock)
  return formatLock(lock), 'PX', keepMsOf(lock)
end

-- Readers that wait behind nobody but readers can come in beside the one that has just come in.
local function callReaders(lock, line)
  for _, mark in ipairs(line.marks) do
    if mark.mode == 'w' then return end
    tellTurn(lock, mark.process)
  end
end

-- Whoever holds the lock hears at once that somebody waits for it, when that one is the first.
local function tellHolders(lock, process)
  if lock.queued then return end
  lock.queued = true
  redis.pcall('SET', lock.lockKey, keepRecord(lock))
  for _, holder in ipairs(lock.holders) do
    if not isReleased(holder) then tellProcess(lock, string.match(holder.id, '^(.*)%.') or holder.id, 'w ' .. holder.id .. ' ' .. process) end
  end
end

local function refuse(lock, line, mark)
  addMark(line, mark)
  local leftMs = -1
  if #lock.holders > 0 then
    leftMs = lastEnd(lock) - now + 1
    if mark then tellHolders(lock, mark.process) end
  elseif not line.turn then
    giveTurn(lock, line)
    redis.pcall('SET', lock.lockKey, keepRecord(lock))
  end
  writeLine(line)
  return { 0, now, leftMs }
end

local function vote(request)
  local lockKey, mode, owner, process, waitedMs = request.lockKey, request.mode, request.owner, request.process, request.waitedMs
  if not remembers(request.epochKey, request.runId) then
    local epoch = readEpoch(request.epochKey, request.maxLeaseMs, now)
    if not epoch.whole and epoch.leftMs > 0 then return { 4, now, epoch.leftMs } end
    if not epoch.whole then return { 5, now } end
  end
  local lock = parseLock(redis.call('GET', lockKey) or '', request)
  -- The node's own clock stays out of the fence: then nodes that saw the same grants answer the same number.
  lock.floor, lock.nowUs = request.proposal - 1, 0
  local own = holderOf(lock, request.id)
  if own then return granted(lock, own, false) end
  local kin = ownedBy(lock, owner)
  if kin and lock.mode == 'r' and mode == 'w' then return { 2, now } end
  if kin and isFullFor(lock, owner) then return { 6, now } end
  local line = openLine(lock, request.marksKey)
  local before, other = dropMarks(line, process, mode)
  local hasItElsewhere = waitedMs == -2
  local since = now - math.max(waitedMs, 0)
  local fits = kin or #lock.holders == 0 or lock.mode == 'r' and mode == 'r'
  if not kin and not (fits and (hasItElsewhere or goesFirst(line, process, mode, since, other and not before))) then
    local mark = { ending = now + MARK_MS, since = since, patience = request.patienceMs, mode = mode, process = process }
    addMark(line, other)
    if waitedMs < 0 then addMark(line, before) end
    return refuse(lock, line, waitedMs >= 0 and mark)
  end
  -- Whoever has been served stands behind all others, whatever else it waits for.
  if other and not hasItElsewhere then other.since = now end
  addMark(line, other)
  if hasItElsewhere then addMark(line, before) end
  if not kin then lock.mode = mode end
  local waiting = nextInLine(line, lock.mode)
  lock.queued = waiting and true or false
  local holder = enter(lock, request, math.max(request.leaseMs, request.minHoldMs), kin and kin.fence)
  redis.call('SET', lockKey, keepRecord(lock))
  writeLine(line)
  if lock.mode == 'r' then callReaders(lock, line) end
  return granted(lock, holder, kin, waiting)
end

for _, n in ipairs(uncommon) do
  local request = requestOf(n)
  request.leaseMs = request.keepMs - LOCK_GRACE_MS
  replies[n] = orRefused(pcall(vote, request))
end
return count == 1 and replies[1] or replies
