--- Prolongs the leases of many holders; never creates, never revives, never shortens.
--- KEYS[...] lockKeys  the lock of each lease
--- ARGV[...] runs  for each run of leases that get the same length:
---   leaseMs: number  that length, with the grace after it
---   ids: text        the holders, with spaces between
--- RETURNS all head: now  the server's time in ms
--- RETURNS each lease: position, left number or text, contended flag  what there is to say of a lease, unless it was renewed to its length and nobody waits: left is the ms until it and its grace end, -1 for lost, or the server's words where it refused the key; contended when others wait
--- INVARIANT a lock that is in the batch for many holders is read and written once
--- INVARIANT an end further away than any lease can be, from before the server's clock was set back, is brought to the latest that can be
--- INVARIANT only the locks' own keys are touched, so that each can be sent alone while a slot migrates
--- @bind

--- @include shared/server-time
--- @include shared/limits

-- The first write is one that needs no memory: after it a full server lets the others through.
local written = false

local function write(lockKey, text, keepMs)
  if not written then redis.call('PEXPIRE', lockKey, keepMs) end
  redis.call('SET', lockKey, text, 'PX', keepMs)
  written = true
end

-- Leases that need a closer look, by their lock, and these locks in order.
local uncommon, locks = {}, {}
local news, position = {}, 0

-- The commonest case, before the functions for all others are made: one holder, and nobody waits. Ends are compared as text;
-- one formatted end serves a whole run.
local nowText = string.format(INSTANT, now)
for run = 1, count do
  --- @bind leaseMs, ids of run
  local lengthMs = tonumber(leaseMs)
  local newEnd, keepMs = string.format(INSTANT, now + lengthMs), string.format('%.0f', lengthMs + LOCK_GRACE_MS)
  for id in string.gmatch(ids, '%S+') do
    position = position + 1
    local lockKey = lockKeys[position]
    local known = uncommon[lockKey]
    local text = not known and redis.pcall('GET', lockKey)
    local head, oldEnd, holder, rest
    -- A refusal is a table without items.
    if text and #text > 0 then head, oldEnd, holder, rest = string.match(text, '^(.00 )(%d+) (%S+)(.*)') end
    if holder == id and lengthMs <= USUAL_LEASE_MS and oldEnd >= nowText and oldEnd <= newEnd then
      write(lockKey, head .. newEnd .. ' ' .. id .. rest, keepMs)
    elseif known then
      known[#known + 1] = { position = position, id = id, lengthMs = lengthMs }
    else
      uncommon[lockKey] = { { position = position, id = id, lengthMs = lengthMs } }
      locks[#locks + 1] = lockKey
    end
  end
end
if #locks == 0 then return { now, news } end

--- @include shared/lock-record
--- @include shared/refusal

local function tell(at, left, queued)
  news[#news + 1] = { at, left, queued and 1 or 0 }
end

-- Renews the holders of one lock that are in this batch; it is read again, for one of them may have been renewed just now.
local function renew(lockKey, leases)
  local lock = openLock({ lockKey = lockKey })
  local holders, found = {}, false
  for _, holder in ipairs(lock.holders) do holders[holder.id] = holder end
  for _, lease in ipairs(leases) do
    local holder = holders[lease.id]
    -- One that was let in from the queue says by its first renewal that it lives: from here on it owes its minHoldMs.
    if holder then
      holder.ending, found = math.max(whole(holder).ending, now + lease.lengthMs, holder.minEnd + holder.graceMs), true
      holder.longMs = math.max(holder.longMs, longMsOf(lease.lengthMs))
    end
  end
  if found then write(lockKey, formatLock(lock), keepMsOf(lock, lock.queued and WAITER_LEASE_MS)) end
  for _, lease in ipairs(leases) do
    local holder = holders[lease.id]
    tell(lease.position, holder and holder.ending - now or -1, holder and (lock.queued or lock.marked))
  end
end

for _, lockKey in ipairs(locks) do
  local done, words = pcall(renew, lockKey, uncommon[lockKey])
  if not done then
    throwIfReplica(words)
    for _, lease in ipairs(uncommon[lockKey]) do tell(lease.position, words) end
  end
end
return { now, news }
