-- The waiters of one lock: two lists, one for each mode, linked inside one hash, so that whoever leaves anywhere leaves
-- no gap behind and every step costs the same with one waiter or with thousands.
--
--   rh rt wh wt   ids of the first and last waiter of each mode
--   @<id>         <end of its waiter lease> <mode><turn> <leaseMs> <minHoldMs> <graceMs> <fences> <owner> <label>
--   ><id> <<id>   the ids after and before it
--
-- mode    that of the list: who waits for a permit stands among those who write
-- turn    whether it is passed over while it would not hear of its turn: a grant to a process that is gone, or stands still, would keep
--         the lock from all others for a first lease. It loses its turn, never its place, and only until it is heard of again: its
--         subscriber may be renewed just now.
local TAKES_ITS_TURN = '0' -- who was passed over and has said since that it lives
local ONLY_IF_HEARD = '1' -- others go first while nobody listens, or while it is silent
local WAS_PASSED_OVER = '2' -- the same, and it happened, and the waiter has not been heard of since
local ONLY_IF_RECENT = '3' -- others go first while it is silent: on a Cluster, where this node may not know who listens

-- A waiter asks again every 700 ms. After so long without a word, in ms, its process stands still or is gone.
local SILENT_AFTER_MS = 1200

-- After so many in a row who do not listen the first of them has its turn: one script must not look at thousands.
local MAX_PASSED_OVER = 100

-- The ends of both lists, read once; and the record of a waiter, if one is asked for.
local function openQueue(lock, id)
  if lock.queue then return lock.queue, id and lock.queued and redis.call('HGET', lock.queueKey, '@' .. id) end
  local found = lock.queued and redis.call('HMGET', lock.queueKey, 'rh', 'rt', 'wh', 'wt', '@' .. (id or '')) or {}
  lock.queue = { head = { r = found[1], w = found[3] }, tail = { r = found[2], w = found[4] } }
  lock.queued = (found[1] or found[3]) and true or false
  return lock.queue, found[5]
end

-- Whoever is heard of, or joins, keeps the queue and its lock. This needs no memory, and after it a full server lets the rest through.
local function keepQueue(lock)
  if not lock.queue.isKept then redis.call('PEXPIRE', lock.queueKey, WAITER_LEASE_MS + QUEUE_GRACE_MS) end
  lock.queue.isKept = true
end

-- Takes a waiter out from wherever it is, and returns its record; false when it does not wait. Deletes before it writes, so that a full server lets it through.
local function takeOut(lock, id)
  if not lock.queued then return false end
  local key, queue = lock.queueKey, openQueue(lock)
  local found = redis.call('HMGET', key, '@' .. id, '>' .. id, '<' .. id)
  local record, after, before = found[1], found[2], found[3]
  if not record then return false end
  -- An end of the list stands in the place of the neighbour that is not there.
  local mode = string.sub(record, 15, 15)
  local toNext, toLast = before and '>' .. before or mode .. 'h', after and '<' .. after or mode .. 't'
  redis.call('HDEL', key, '@' .. id, '>' .. id, '<' .. id, toNext, toLast)
  lock.deleted = true
  if after then redis.call('HSET', key, toNext, after) end
  if before then redis.call('HSET', key, toLast, before) end
  if not before then queue.head[mode] = after end
  if not after then queue.tail[mode] = before end
  lock.queued = (queue.head.r or queue.head.w) and true or false
  return record
end

-- A waiter lease that ends later than one can was given before the server's clock was set back: whoever it was asks anew.
local function isAlive(record)
  local ending = record and tonumber(string.sub(record, 1, 13))
  return ending and ending >= now and ending <= now + WAITER_LEASE_MS
end

local function readWaiter(id, record)
  local mode, leaseMs, minHoldMs, graceMs, fences, owner, label = string.match(record, '^%S+ (.). (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {
    id = id, mode = mode, leaseMs = tonumber(leaseMs), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), fences = tonumber(fences), owner = owner, label = label,
  }
end

-- True if a waiter was last heard of by an earlier memory, as after a failover to a replica that has its place. It may know of a holder that
-- this memory has forgotten: so it keeps its place, and is not served from it before it has said with a request what it was told (stand-in.lua).
local function isFromBefore(lock, id, record)
  if id == lock.witness then return false end
  local since = beganAt(lock)
  -- Of a server whose clock was set back behind that, nothing can be said.
  return since <= now and tonumber(string.sub(record, 1, 13)) < since + WAITER_LEASE_MS
end

-- The first live waiter of a list from this id on: id, record and the id after it. Those before it, who died, are dropped.
local function liveFrom(lock, id)
  while id do
    local found = redis.call('HMGET', lock.queueKey, '@' .. id, '>' .. id)
    if isAlive(found[1]) then return id, found[1], found[2] end
    if not takeOut(lock, id) then return nil end
    id = found[2]
  end
end

local function firstWaiter(lock, mode)
  local head = openQueue(lock).head
  local id, record, after = liveFrom(lock, head[mode])
  if not id and head[mode] then
    -- Without a record the list is damaged: its rest cannot be reached, and its waiters ask anew.
    redis.call('HDEL', lock.queueKey, mode .. 'h', mode .. 't')
    head[mode] = nil
    lock.queued = (head.r or head.w) and true or false
  end
  return id, record, after
end

-- A waiter whose own request runs this script hears of its turn by the answer. Where the server refuses to say who listens, everybody
-- counts as heard.
local function hearsOfItsTurn(lock, id, record)
  local turn = string.sub(record, 16, 16)
  if turn == TAKES_ITS_TURN or lock.asking[id] then return true end
  if tonumber(string.sub(record, 1, 13)) < now + WAITER_LEASE_MS - SILENT_AFTER_MS then return false end
  return turn == ONLY_IF_RECENT or redis.pcall('PUBSUB', 'NUMSUB', channelOf(lock, id))[2] ~= 0
end

-- HDEL deletes nothing here, but after it a full server lets the next line through.
local function passOver(lock, id, record)
  if string.sub(record, 16, 16) == WAS_PASSED_OVER then return end
  redis.call('HDEL', lock.queueKey, '@')
  redis.call('HSET', lock.queueKey, '@' .. id, string.sub(record, 1, 15) .. WAS_PASSED_OVER .. string.sub(record, 17))
end

-- The first live waiter of a mode that would hear of its turn; those before it are passed over and keep their places.
local function firstListening(lock, mode)
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and not hearsOfItsTurn(lock, id, record) do
    passOver(lock, id, record)
    passed = passed + 1
    if passed == MAX_PASSED_OVER then return nil end
    id, record, after = liveFrom(lock, after)
  end
  return id, record, after
end

-- Tells the holders that somebody waits: of those with a permit one in each process, for there may be thousands.
local function tellHolders(lock)
  local told = {}
  for _, holder in ipairs(lock.holders) do
    local name = lock.mode == 'p' and channelOf(lock, holder.id) or holder.id
    if not told[name] then tellHolder(lock, holder, 'c') end
    told[name] = true
  end
end

-- Puts a waiter at the end of its list; whoever begins a queue tells the holders.
local function joinQueue(lock, who)
  local id, mode = who.id, who.mode == 'r' and 'r' or 'w'
  if not lock.queued then
    redis.call('DEL', lock.queueKey) -- of a lock that was lost without its queue
    lock.queue, lock.queued = { head = {}, tail = {} }, true
    tellHolders(lock)
  end
  local turn = who.needsListener and ONLY_IF_HEARD or ONLY_IF_RECENT
  local record = string.format(INSTANT .. ' %s%s %.0f %.0f %.0f %d %s %s',
    now + WAITER_LEASE_MS, mode, turn, who.leaseMs, who.minHoldMs, who.graceMs, who.fences, who.owner, who.label)
  local queue = openQueue(lock)
  local last = queue.tail[mode]
  redis.call('HSET', lock.queueKey, '@' .. id, record, mode .. 't', id, last and '>' .. last or mode .. 'h', id)
  if last then redis.call('HSET', lock.queueKey, '<' .. id, last) else queue.head[mode] = id end
  queue.tail[mode] = id
  keepQueue(lock)
end

-- Grants the lock to a waiter, and tells it. A fence is given where its owner shares one.
local function letIn(lock, who, fence)
  takeOut(lock, who.id)
  local holder = enter(lock, who, math.min(who.leaseMs, FIRST_LEASE_MS), fence)
  holder.longMs = math.max(holder.longMs, who.leaseMs)
  lock.messages[#lock.messages + 1] = { who.id, holder, lock.mode == 'r' and 'r' or 'w' }
  return holder
end

-- Lets a waiter in beside its owner, who was granted the lock after it had queued; not to write beside readers. It is looked
-- for when the waiter is heard of, not when its owner is granted: then nobody has to search the queue.
local function enterBesideOwner(lock, id, record)
  local who = readWaiter(id, record)
  if who.owner == '-' or recoveryOf(lock) > 0 then return nil end
  local refusal, fence = besideOwner(lock, who)
  return refusal == 0 and letIn(lock, who, fence) or nil
end

-- Prolongs the waiter lease of a live waiter, which has its turn again if it was passed over. False when it has no place, or lost
-- it by its silence; and the holder, when it was let in beside its owner.
local function keepPlace(lock, id)
  local _, record = openQueue(lock, id)
  if not record then return false end
  if not isAlive(record) then
    takeOut(lock, id)
    return false
  end
  local holder = enterBesideOwner(lock, id, record)
  if holder then return false, holder end
  keepQueue(lock)
  local turn = string.sub(record, 16, 16)
  if turn == WAS_PASSED_OVER then turn = TAKES_ITS_TURN end
  redis.call('HSET', lock.queueKey, '@' .. id, string.format(INSTANT, now + WAITER_LEASE_MS) .. string.sub(record, 14, 15) .. turn .. string.sub(record, 17))
  return true
end

-- Lets in those who wait in the list of a mode, in their order: all readers, one writer, or one for each free permit.
local function admit(lock, mode, anybody)
  local most = lock.mode == 'p' and lock.permits or mode == 'r' and math.huge or 1
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and passed < MAX_PASSED_OVER and #lock.holders < most do
    if not isFromBefore(lock, id, record) and (anybody or hearsOfItsTurn(lock, id, record)) then
      if lock.mode ~= 'p' then lock.mode = mode end
      letIn(lock, readWaiter(id, record))
    else
      passOver(lock, id, record)
      passed = passed + 1
    end
    id, record, after = liveFrom(lock, after)
  end
end

-- Who waits for a permit stands among those who write.
local function admitNext(lock, anybody)
  local first, second = 'w', 'r'
  if lock.mode == 'w' then first, second = 'r', 'w' end
  admit(lock, first, anybody)
  if #lock.holders == 0 then admit(lock, second, anybody) end
end

-- Lets in whose turn it is, after those who ended were dropped. Reading and writing take phases: after a writer all
-- waiting readers enter together, after the last reader one writer does, and a reader waits beside readers only for
-- the sake of a live writer. Where there are permits, whoever waits enters as long as one is free. A waiter that would not hear of
-- its turn is passed over, unless that goes for all who wait.
local function settle(lock)
  if not lock.queued then return end
  local recoversForMs = recoveryOf(lock)
  if recoversForMs > 0 then
    -- A lock that somebody waits for stays taken meanwhile, by nobody.
    if #lock.holders == 0 then addNobody(lock, RECOVERY, now + recoversForMs) end
    return
  end
  if #lock.holders == 1 and lock.holders[1].id == RECOVERY then lock.holders = {} end
  if lock.mode == 'r' and #lock.holders > 0 then
    if not firstListening(lock, 'w') then admit(lock, 'r') end
    return
  end
  local places = lock.mode == 'p' and lock.permits or 1
  if #lock.holders < places then admitNext(lock) end
  -- A subscription that was lost must not leave a free lock to nobody.
  if #lock.holders < places and lock.queued then admitNext(lock, true) end
  -- Those who wait from before have until then to ask.
  if #lock.holders == 0 and lock.queued then addNobody(lock, RECOVERY, beganAt(lock) + WAITER_LEASE_MS) end
end

-- The waiter whose turn is next.
local function nextInLine(lock)
  local head = openQueue(lock).head
  if lock.mode == 'w' then return head.r or head.w end
  return head.w or head.r
end

-- How long until the present hold ends, for the waiter whose turn is next; -1 for all others.
local function askAgainIn(lock, id)
  return nextInLine(lock) == id and endsOf(lock) - now + 1 or -1
end

-- True if what ends next is no lease any more, but the rest of the minHoldMs of a hold that was released.
local function endsWithoutHolder(lock)
  local ending = endsOf(lock)
  for _, holder in ipairs(lock.holders) do
    if holder.ending == ending and isReleased(holder) then return true end
  end
  return false
end

-- Takes an id out of a lock. Returns true for a holder, the record of a waiter, and false when it was neither. When only what is owed of a
-- minHoldMs is left, that ends sooner than the lease of which the next in line was told: that waiter is told to ask again.
local function leave(lock, id, abandoned)
  if not removeHolder(lock, id, abandoned) then return takeOut(lock, id) end
  lock.frees = true
  local waiter = lock.queued and endsWithoutHolder(lock) and nextInLine(lock)
  if waiter then tellId(lock, waiter, 't') end
  return true
end
