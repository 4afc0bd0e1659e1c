-- The waiters of one lock: two lists, one for each mode, linked inside one hash, so that whoever leaves anywhere leaves
-- no gap behind and every step costs the same with one waiter or with thousands.
--
--   rh rt wh wt   ids of the first and last waiter of each mode
--   @<id>         <end of its waiter lease> <mode><turn> <leaseMs> <minHoldMs> <graceMs> <fences> <owner> <label>
--   ><id> <<id>   the ids after and before it
--
-- mode    that of the list: who waits for a permit stands among those who write
-- turn    whether it is passed over while it would not hear of its turn (listening.lua)

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

-- Takes a waiter out from wherever it is. Deletes before it writes, so that a full server lets it through.
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
  return true
end

-- A waiter lease that ends later than one can was given before the server's clock was set back: whoever it was asks anew.
local function isAlive(lock, record)
  local ending = record and tonumber(string.sub(record, 1, 13))
  return ending and ending >= lock.now and ending <= lock.now + WAITER_LEASE_MS
end

local function readWaiter(id, record)
  local mode, leaseMs, minHoldMs, graceMs, fences, owner, label = string.match(record, '^%S+ (.). (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {
    id = id, mode = mode, leaseMs = tonumber(leaseMs), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), fences = tonumber(fences), owner = owner, label = label,
  }
end

-- The first live waiter of a list from this id on: id, record and the id after it. Those before it, who died, are dropped.
local function liveFrom(lock, id)
  while id do
    local found = redis.call('HMGET', lock.queueKey, '@' .. id, '>' .. id)
    if isAlive(lock, found[1]) then return id, found[1], found[2] end
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
    if not isReleased(holder) and not told[name] then
      told[name], lock.told[#lock.told + 1] = true, { holder.id, 'c ' .. holder.id }
    end
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
    lock.now + WAITER_LEASE_MS, mode, turn, who.leaseMs, who.minHoldMs, who.graceMs, who.fences, who.owner, who.label)
  local queue = openQueue(lock)
  local last = queue.tail[mode]
  if last then
    redis.call('HSET', lock.queueKey, '@' .. id, record, mode .. 't', id, '>' .. last, id, '<' .. id, last)
  else
    redis.call('HSET', lock.queueKey, '@' .. id, record, mode .. 't', id, mode .. 'h', id)
    queue.head[mode] = id
  end
  queue.tail[mode] = id
  keepQueue(lock)
end

-- Lets a waiter in beside its owner, who was granted the lock after it had queued; not to write beside readers. It is looked
-- for when the waiter is heard of, not when its owner is granted: then nobody has to search the queue.
local function enterBesideOwner(lock, id, record)
  local who = readWaiter(id, record)
  if who.owner == '-' or recoveryOf(lock) > 0 then return nil end
  local refusal, fence = besideOwner(lock, who)
  if refusal ~= 0 then return nil end
  takeOut(lock, id)
  local holder = enter(lock, who, math.min(who.leaseMs, FIRST_LEASE_MS), fence)
  lock.told[#lock.told + 1] = { id, holder, lock.mode }
  return holder
end

-- Prolongs the waiter lease of a live waiter, which has its turn again if it was passed over. False when it has no place, or lost
-- it by its silence; and the holder, when it was let in beside its owner.
local function keepPlace(lock, id)
  local _, record = openQueue(lock, id)
  if not record then return false end
  if not isAlive(lock, record) then
    takeOut(lock, id)
    return false
  end
  local holder = enterBesideOwner(lock, id, record)
  if holder then return false, holder end
  keepQueue(lock)
  local turn = string.sub(record, 16, 16)
  if turn == WAS_PASSED_OVER then turn = TAKES_ITS_TURN end
  redis.call('HSET', lock.queueKey, '@' .. id, string.format(INSTANT, lock.now + WAITER_LEASE_MS) .. string.sub(record, 14, 15) .. turn .. string.sub(record, 17))
  return true
end

-- How long until the present hold ends, for the waiter whose turn is next; -1 for all others.
local function askAgainIn(lock, id)
  local head = openQueue(lock).head
  local first
  if lock.mode == 'w' then first = head.r or head.w else first = head.w or head.r end
  return first == id and nextEnd(lock) - lock.now + 1 or -1
end

-- Takes an id out of a lock, holding or waiting; whether it was there.
local function leave(lock, id, abandoned)
  if not removeHolder(lock, id, abandoned) then return takeOut(lock, id) end
  lock.frees = true
  return true
end
