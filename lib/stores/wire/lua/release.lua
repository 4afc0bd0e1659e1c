--- Takes ids away wherever they are, holding or waiting, and lets in whose turn it is; for one id or for many.
--- KEYS[...] keys  for each id:
---   lockKey   the lock
---   queueKey  its waiters
---   fenceKey  the slot group's last fence
--- ARGV[...] requests  for each id:
---   terms: <mayBeOver><abandoned> <id> <floor> <recoveryMs> <known> <mark>  who leaves, and how
---     mayBeOver: flag  whether its lease may have ended before, by the clock of the caller, or is one of an earlier memory; of who leaves a mark as well
---     abandoned: flag  whether its work never began, so that it owes no minHoldMs
---     id: text         of the holder or waiter
---     floor: number    the highest fence that the caller has seen in the slot group
---     recoveryMs: number  how long nothing new is granted after the server forgot
---     known: text      what the server told the caller as its memory, or as many dashes
---     mark: text or -  of a Redlock: the mark of a request of the same process that waits from now on (marks.lua)
--- RETURNS 1 released, or forgotten by the server before anybody else could have the lock
--- RETURNS 0 lost
--- RETURNS refused  the server's words: it refused something for this id's keys
--- RETURNS a list of these when there are several ids
--- INVARIANT no other id is touched, and doing it twice is harmless
--- INVARIANT the first write deletes, so that it works on a full server
--- @bind

-- The commonest case, before the functions for all others are made and the clock is read: the only holder gives back, in time and
-- without a waiter. A refusal, which is a table without items, is left to the functions.
local replies, uncommon = {}, nil
for n = 1, count do
  --- @bind lockKey, mayBeOver, id of n
  local text = mayBeOver == '0' and redis.pcall('GET', lockKey)
  if text and #text > 0 and string.sub(text, 2, 4) == '00 ' and string.sub(text, 19, 19 + #id) == id .. ' ' then
    redis.call('DEL', lockKey)
    replies[n] = 1
  else
    uncommon = uncommon or {}
    uncommon[#uncommon + 1] = n
  end
end
if not uncommon then return count == 1 and replies[1] or replies end

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/queue
--- @include shared/marks
--- @include shared/stand-in
--- @include shared/refusal
--- @request

local function release(request)
  local lock = openLock(request)
  local there = takeAway(lock, request.id, request.abandoned)
  if lock.text ~= '' then
    settle(lock)
    passOn(lock, request)
    closeLock(lock)
  end
  return there and 1 or 0
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(release, requestOf(n)))
end
return count == 1 and replies[1] or replies
