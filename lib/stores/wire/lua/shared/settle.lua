-- Lets in whose turn it is, after those who ended were dropped. Reading and writing take phases: after a writer all
-- waiting readers enter together, after the last reader one writer does, and a reader waits beside readers only for
-- the sake of a live writer.

local function grantTo(lock, id, record, after)
  local who = readWaiter(id, record)
  takeHead(lock, who.mode, id, after)
  lock.mode = who.mode
  local holder = enter(lock, who, math.min(who.leaseMs, FIRST_LEASE_MS))
  lock.told[#lock.told + 1] = { id, holder, who.mode }
end

local function admitReaders(lock)
  local id, record, after = firstWaiter(lock, 'r')
  while id do
    grantTo(lock, id, record, after)
    id, record, after = firstWaiter(lock, 'r')
  end
end

local function admitWriter(lock)
  local id, record, after = firstWaiter(lock, 'w')
  if id then grantTo(lock, id, record, after) end
end

-- While the server recovers, a lock that somebody waits for stays taken, by nobody.
local function keepTaken(lock, forMs)
  if #lock.holders > 0 then return end
  local ending = lock.now + forMs
  lock.holders[1] = { ending = ending, id = RECOVERY, fence = 0, fences = 1, minEnd = ending, owner = '-', label = '-' }
end

local function settle(lock)
  if not lock.queued then return end
  local recoversForMs = recoveryOf(lock)
  if recoversForMs > 0 then return keepTaken(lock, recoversForMs) end
  if #lock.holders > 0 then
    if lock.mode == 'r' and not firstWaiter(lock, 'w') then admitReaders(lock) end
  elseif lock.mode == 'w' then
    admitReaders(lock)
    if #lock.holders == 0 then admitWriter(lock) end
  else
    admitWriter(lock)
    if #lock.holders == 0 then admitReaders(lock) end
  end
end
