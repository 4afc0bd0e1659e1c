--- Prolongs the leases of many holders, each of its own lock; never creates, never revives, never shortens.
--- KEYS[...] lockKeys  the locks
--- ARGV[...] requests  the longest lease that can be, in ms; then for each run of locks that get the same length: that length in ms, the holders' ids with spaces between
--- RETURNS [1] now
--- RETURNS [...] news  for each lock that was not just renewed to that length while nobody waits, three numbers: which lock it is, ms until the lease ends or -1 for lost, 1 when others wait, else 0
--- INVARIANT an end further away than any lease can be, from before the server's clock was set back, is brought to the latest that can be
--- INVARIANT only the locks' own keys are touched, so that each can be sent alone while a slot migrates
local lockKeys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits

-- The first write is one that needs no memory: after it a full server lets the others through.
local written = false

local function write(lockKey, text, keepMs)
  if not written then redis.call('PEXPIRE', lockKey, keepMs) end
  redis.call('SET', lockKey, text, 'PX', keepMs)
  written = true
end

local reply, uncommon, position = { now }, {}, 0

-- The commonest case, before the functions for all others are made: one holder, and nobody waits. Ends have thirteen digits
-- and are compared as text; one formatted end serves a whole run.
local nowText = string.format('%.0f', now)
for run = 2, #requests, 2 do
  local leaseMs = requests[run]
  local newEnd, keepMs = string.format('%.0f', now + leaseMs), string.format('%.0f', leaseMs + LOCK_GRACE_MS)
  for id in string.gmatch(requests[run + 1], '%S+') do
    position = position + 1
    local text = redis.call('GET', lockKeys[position]) or ''
    local head, oldEnd, holder, rest = string.match(text, '^(.00 )(%d+) (%S+)(.*)')
    if holder == id and oldEnd >= nowText and oldEnd <= newEnd then
      write(lockKeys[position], head .. newEnd .. ' ' .. id .. rest, keepMs)
    else
      uncommon[#uncommon + 1] = { position, id, now + leaseMs }
    end
  end
end
if #uncommon == 0 then return reply end

--- @include shared/lock-record

local longestMs = tonumber(requests[1])

-- Returns the end of the lease, and whether others wait; nothing when it is lost.
local function renew(lockKey, text, id, newEnd)
  local lock = parseLock(text, {}, 0, now, nowUs, longestMs)
  local holder = holderOf(lock, id)
  if not holder then return nil end
  -- One that was let in from the queue says by its first renewal that it lives: from here on it owes its minHoldMs.
  holder.ending = math.max(holder.ending, newEnd, holder.minEnd)
  local leftMs = lastEnd(lock) - now
  local keepMs = (lock.queued and math.max(leftMs, WAITER_LEASE_MS) or leftMs) + LOCK_GRACE_MS
  write(lockKey, formatLock(lock), string.format('%.0f', keepMs))
  return holder.ending, lock.queued
end

for _, one in ipairs(uncommon) do
  local at, id, newEnd = unpack(one)
  -- Read again: another holder of the same lock may have been renewed just now.
  local ending, queued = renew(lockKeys[at], redis.call('GET', lockKeys[at]) or '', id, newEnd)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = at, ending and ending - now or -1, queued and 1 or 0
end
return reply
