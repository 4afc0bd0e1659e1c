-- Lets in whose turn it is, after those who ended were dropped. Reading and writing take phases: after a writer all
-- waiting readers enter together, after the last reader one writer does, and a reader waits beside readers only for
-- the sake of a live writer. Where there are permits, whoever waits enters as long as one is free. A waiter that would not hear of
-- its turn is passed over (listening.lua), unless that goes for all who wait.

local function grantTo(lock, id, record, after)
  local who = readWaiter(id, record)
  if lock.queue.head[who.mode] == id then takeHead(lock, who.mode, id, after) else takeOut(lock, id) end
  if lock.mode ~= 'p' then lock.mode = who.mode end
  local holder = enter(lock, who, math.min(who.leaseMs, FIRST_LEASE_MS))
  lock.told[#lock.told + 1] = { id, holder, who.mode }
end

-- Lets in those who wait in a list, in their order, until the lock has so many holders.
local function admitUpTo(most, lock, mode, anybody)
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and passed < MAX_PASSED_OVER and #lock.holders < most do
    if anybody or hearsOfItsTurn(lock, id, record) then
      grantTo(lock, id, record, after)
    else
      passOver(lock, id, record)
      passed = passed + 1
    end
    id, record, after = waiterBehind(lock, after)
  end
end

local function admitReaders(lock, anybody)
  admitUpTo(math.huge, lock, 'r', anybody)
end

local function admitWriter(lock, anybody)
  local first = anybody and firstWaiter or firstListening
  local id, record, after = first(lock, 'w')
  if id then grantTo(lock, id, record, after) end
end

local function admit(lock, anybody)
  if lock.mode == 'w' then
    admitReaders(lock, anybody)
    if #lock.holders == 0 then admitWriter(lock, anybody) end
  else
    admitWriter(lock, anybody)
    if #lock.holders == 0 then admitReaders(lock, anybody) end
  end
end

-- What stands in the owner's place of a holder that is nobody.
local function ownerOfNobody(lock)
  return lock.mode == 'p' and string.format('%d', lock.permits) or '-'
end

-- While the server recovers, a lock that somebody waits for stays taken, by nobody.
local function keepTaken(lock, forMs)
  if #lock.holders > 0 then return end
  local ending = lock.now + forMs
  lock.holders[1] = { ending = ending, id = RECOVERY, fence = 0, fences = 1, minEnd = ending, owner = ownerOfNobody(lock), label = '-', graceMs = 0 }
end

local function settle(lock)
  if not lock.queued then return end
  local recoversForMs = recoveryOf(lock)
  if recoversForMs > 0 then return keepTaken(lock, recoversForMs) end
  if lock.mode == 'p' then
    admitUpTo(lock.permits, lock, 'w')
    if #lock.holders < lock.permits and lock.queued then admitUpTo(lock.permits, lock, 'w', true) end
    return
  end
  if #lock.holders > 0 then
    if lock.mode == 'r' and not firstListening(lock, 'w') then admitReaders(lock) end
    return
  end
  admit(lock)
  -- A subscription that was lost must not leave a free lock to nobody.
  if #lock.holders == 0 and lock.queued then admit(lock, true) end
end
