--- Prolongs the leases of many holders, each of its own lock; never creates, never revives, never shortens.
--- KEYS[...] lockKeys  the locks
--- ARGV[...] requests  for each lock: the holder's id, the new length of its lease in ms
--- RETURNS [1] now
--- RETURNS [2n] of the nth lock: ms until the lease ends, or -1 for lost
--- RETURNS [2n + 1] 1 when others wait, else 0
--- INVARIANT only the locks' own keys are touched, so that each can be sent alone while a slot migrates
local lockKeys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/lock-record

-- The line of a lock that has several holders, or a holder with minHoldMs.
local function renewAmong(text, id, newEnd)
  local lock = parseLock(text, {}, 0, now, nowUs)
  local holder = holderOf(lock, id)
  if not holder then return nil end
  -- One that was let in from the queue says by its first renewal that it lives: from here on it owes its minHoldMs.
  holder.ending = math.max(holder.ending, newEnd, holder.minEnd)
  return formatLock(lock), lastEnd(lock), holder.ending
end

-- The first write is one that needs no memory: after it a full server lets the others through.
local written = false

-- Returns the end of the lease, and whether others wait; nothing when it is lost.
local function renew(lockKey, id, newEnd)
  local text = redis.call('GET', lockKey)
  if not text then return nil end
  local renewed, last
  if string.sub(text, 3, 4) == '0 ' then
    local oldEnd = tonumber(string.sub(text, 5, 17))
    if oldEnd < now or string.sub(text, 19, 19 + #id) ~= id .. ' ' then return nil end
    newEnd = math.max(oldEnd, newEnd)
    renewed, last = string.sub(text, 1, 4) .. string.format('%.0f', newEnd) .. string.sub(text, 18), newEnd
  else
    renewed, last, newEnd = renewAmong(text, id, newEnd)
    if not renewed then return nil end
  end
  local queued = string.sub(text, 2, 2) == '1'
  local keepMs = (queued and math.max(last - now, WAITER_LEASE_MS) or last - now) + LOCK_GRACE_MS
  if not written then redis.call('PEXPIRE', lockKey, string.format('%.0f', keepMs)) end
  redis.call('SET', lockKey, renewed, 'PX', string.format('%.0f', keepMs))
  written = true
  return newEnd, queued
end

local reply = { now }
for n, lockKey in ipairs(lockKeys) do
  local ending, queued = renew(lockKey, requests[2 * n - 1], now + requests[2 * n])
  reply[2 * n], reply[2 * n + 1] = ending and ending - now or -1, queued and 1 or 0
end
return reply
