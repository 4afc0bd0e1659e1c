-- Lets in whose turn it is, after those who ended were dropped. Reading and writing take phases: after a writer all
-- waiting readers enter together, after the last reader one writer does, and a reader waits beside readers only for
-- the sake of a live writer. Where there are permits, whoever waits enters as long as one is free. A waiter that would not hear of
-- its turn is passed over (listening.lua), unless that goes for all who wait.

local function grantTo(lock, id, record)
  local who = readWaiter(id, record)
  takeOut(lock, id)
  if lock.mode ~= 'p' then lock.mode = who.mode end
  local holder = enter(lock, who, math.min(who.leaseMs, FIRST_LEASE_MS))
  lock.told[#lock.told + 1] = { id, holder, who.mode }
end

-- Lets in those who wait in the list of a mode, in their order: all readers, one writer, or one for each free permit.
local function admit(lock, mode, anybody)
  local most = lock.mode == 'p' and lock.permits or mode == 'r' and math.huge or 1
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and passed < MAX_PASSED_OVER and #lock.holders < most do
    if anybody or hearsOfItsTurn(lock, id, record) then
      grantTo(lock, id, record)
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

local function settle(lock)
  if not lock.queued then return end
  local recoversForMs = recoveryOf(lock)
  if recoversForMs > 0 then
    -- A lock that somebody waits for stays taken meanwhile, by nobody.
    if #lock.holders == 0 then addNobody(lock, RECOVERY, lock.now + recoversForMs) end
    return
  end
  if lock.mode == 'r' and #lock.holders > 0 then
    if not firstListening(lock, 'w') then admit(lock, 'r') end
    return
  end
  local places = lock.mode == 'p' and lock.permits or 1
  if #lock.holders < places then admitNext(lock) end
  -- A subscription that was lost must not leave a free lock to nobody.
  if #lock.holders < places and lock.queued then admitNext(lock, true) end
end
