-- The lock as one string, and as a table while a script works on it.
--
--   <mode><queued><odd> <end> <id> <fence> <fences> <minEnd> <owner> <label> <graceMs> <heardOf> <longMs>
--
--   w00 1795236000000 web-1.7 1795236000000123 1 0 - Orders.pay 500
--   123 5          17 19
--
-- The second line shows the columns that scripts cut out by their numbers: mode 1, queued 2, odd 3, end 5 to 17, and the first id from 19.
--
-- mode    w or r: how it is held; p by several, each with a permit: then the owner's place says how many permits there are
-- queued  1 while somebody waits, else 0: only then the queue's key means anything; 2 on a node of a Redlock that has marks (marks.lua)
-- odd     0 for one holder without minHoldMs, whose release may delete the key unread; 1 where one has to look closer
-- The last three are left out when all of them are 0. heardOf is the server time at which a process brought the hold of an
-- owner back, or said that it has it, to a server that forgot; longMs how long the lease or its minHoldMs is at most, if that is more than
-- USUAL_LEASE_MS, and always of a holder from the queue, whose first lease is shorter than its renewals make it. An end further ahead was
-- written before the server's clock was set back, and is brought to where it must have been at the latest. A further holder adds a line
-- of the same fields. `end` is the last instant at which a holder still counts, its grace
-- included: the lease has ended graceMs before. An id that begins with ~ has been released, but its minHoldMs has not passed: nobody's
-- hold, and yet the lock is taken. Without permits there is one such line at most, which has the latest end of all.

-- Makes the table from the string that stands at the key, or of a lock that is not there. The request gives lockKey, queueKey, fenceKey;
-- floor; known and recoveryMs (memory.lua). A script leaves out what it does not need; without `known` the server is asked which memory it has.
--
-- Others write these fields of the table while they work on it, and closeLock reads what they wrote:
--
-- told           news for holders and waiters, each { id, text, mode }; a holder in place of the text is its grant
-- asking         the ids whose own request runs this script, and which hear of their turn by its answer
-- witness        the id whose request says with this script what an earlier memory told it, if that told it anything (queue.lua)
-- queue          the ends of the two lists of waiters, once they were read (queue.lua)
-- memory, recoversForMs, hasForgotten  what memory.lua says; nothing before somebody has asked for it (recoveryOf)
-- frees          whether something is given back, which a full server has to let through
-- deleted        whether a command that deletes has run already: after it a full server lets the others through

-- True once the end of a holder was cut in this script, of any lock, because the server's clock had been set back.
local wasCut = false

-- Of each line only the end and the id are read, because there may be a thousand: what else a holder is, `whole` reads when a script
-- asks for it, and then its line is written anew. So a request costs a quarter of what it would if all were read.
local function whole(holder)
  if not holder.line then return holder end
  local fence, fences, minEnd, owner, label, graceMs, heardOf, longMs = string.match(holder.line, '^%d+ %S+ (%d+) (%d+) (%d+) (%S+) (%S+) ?(%d*) ?(%d*) ?(%d*)$')
  holder.line, holder.fence, holder.fences, holder.owner, holder.label = nil, tonumber(fence), tonumber(fences), owner, label
  holder.graceMs, holder.heardOf, holder.longMs = tonumber(graceMs) or 0, tonumber(heardOf) or 0, tonumber(longMs) or 0
  local latest = now + math.max(holder.longMs, USUAL_LEASE_MS)
  wasCut = wasCut or holder.ending > latest + holder.graceMs
  holder.ending, holder.minEnd = math.min(holder.ending, latest + holder.graceMs), math.min(tonumber(minEnd), latest)
  return holder
end

local function holdersIn(text)
  local holders = {}
  local latest, at, count, sub, find = now + USUAL_LEASE_MS, #text > 4 and 5, 0, string.sub, string.find
  while at do
    local stop = find(text, '\n', at, true)
    local ending = sub(text, at, at + 12) + 0
    if ending >= now then
      count = count + 1
      local holder = { line = sub(text, at, (stop or 0) - 1), ending = ending, id = sub(text, at + 14, find(text, ' ', at + 14, true) - 1) }
      holders[count] = ending > latest and whole(holder) or holder
    end
    at = stop and stop + 1
  end
  return holders
end

local function openLock(request)
  local text = redis.call('GET', request.lockKey) or ''
  local mode, permits, holders = string.sub(text, 1, 1), 0, holdersIn(text)
  if mode == 'p' then permits = tonumber(string.match(text, '^%d+ %S+ %d+ %d+ %d+ (%S+)', 5)) end
  return {
    text = text, mode = mode, permits = permits, queued = string.sub(text, 2, 2) == '1', marked = string.sub(text, 2, 2) == '2',
    holders = holders,
    lockKey = request.lockKey, queueKey = request.queueKey, fenceKey = request.fenceKey, floor = request.floor or 0,
    known = request.known or '-', recoveryMs = request.recoveryMs, messages = {}, asking = {},
  }
end

-- What stands in a record of a lease or a minHoldMs of this length.
local function longMsOf(lengthMs)
  return lengthMs > USUAL_LEASE_MS and lengthMs or 0
end

local function lineOf(holder)
  local line = string.format(INSTANT .. ' %s %.0f %d %.0f %s %s',
    holder.ending, holder.id, holder.fence, holder.fences, holder.minEnd, holder.owner, holder.label)
  if holder.graceMs + holder.heardOf + holder.longMs == 0 then return line end
  return line .. string.format(' %.0f %.0f %.0f', holder.graceMs, holder.heardOf, holder.longMs)
end

local function formatLock(lock)
  local lines, odd = {}, #lock.holders > 1 or whole(lock.holders[1]).minEnd > 0
  for i, holder in ipairs(lock.holders) do lines[i] = holder.line or lineOf(holder) end
  return lock.mode .. (lock.queued and '1' or lock.marked and '2' or '0') .. (odd and '1 ' or '0 ') .. table.concat(lines, '\n')
end

local function holderOf(lock, id)
  for i, holder in ipairs(lock.holders) do
    if holder.id == id then return whole(holder), i end
  end
end

local function isReleased(holder)
  return string.sub(holder.id, 1, 1) == '~'
end

-- Takes a holder out of the lock; whether it was there. One that owes a part of its minHoldMs leaves the lock taken for the rest of
-- it, to nobody; one whose work never began owes nothing.
local function removeHolder(lock, id, abandoned)
  local holder, position = holderOf(lock, id)
  if not holder then return false end
  if holder.minEnd <= now or abandoned then
    table.remove(lock.holders, position)
    return true
  end
  holder.id, holder.ending, holder.graceMs = '~' .. id, holder.minEnd, 0
  -- Any number of readers who owe it leave one line, of the one that owes it for longest. Of permits each keeps its own.
  for i, other in ipairs(lock.holders) do
    if lock.mode ~= 'p' and i ~= position and isReleased(other) then
      table.remove(lock.holders, other.ending > holder.ending and position or i)
      break
    end
  end
  return true
end

-- How many permits a request names; 0 when it wants the lock without.
local function permitsOf(request)
  return request.mode == 'p' and tonumber(request.owner) or 0
end

-- A holder whose hold requests of this owner share. Those who write at a time are all of one owner.
local function ownedBy(lock, owner)
  if owner == '-' or lock.mode == 'p' then return nil end
  for _, holder in ipairs(lock.holders) do
    if not isReleased(holder) then
      if whole(holder).owner == owner then return holder end
      if lock.mode == 'w' then return nil end
    end
  end
end

-- The server time in ms from which the memory counts (memory.lua).
local function beganAt(lock)
  return tonumber(string.sub(lock.memory, 18))
end

-- The fence that a further hold of this owner shares, and nothing where it gets one of its own. A server that forgot may have the record
-- of a hold that ended, and others had the lock since, so a hold from before shares its fence only once its process has been
-- heard of. The first that this memory granted has the fence that those after it share.
local function fenceToShare(lock, owner)
  local since = lock.memory and beganAt(lock) or 0
  local shared
  for _, holder in ipairs(lock.holders) do
    if whole(holder).owner == owner and not isReleased(holder) then
      if holder.fence >= since * 1000 then return math.max(shared or 0, holder.fence) end
      if holder.heardOf >= since then shared = math.max(shared or 0, holder.fence) end
    end
  end
  return shared
end

local function isFullFor(lock, owner)
  local holds = #lock.holders
  if holds < MAX_HOLDS_OF_OWNER then return false end
  for _, holder in ipairs(lock.holders) do
    if isReleased(holder) or lock.mode == 'r' and whole(holder).owner ~= owner then holds = holds - 1 end
  end
  return holds >= MAX_HOLDS_OF_OWNER
end

-- What a request of an owner finds that has holds of the lock: why it is refused one more, by the codes of acquire.lua, or 0 and the fence to
-- share, if there is one.
local UPGRADE, FULL = 4, 6

local function besideOwner(lock, who)
  if not ownedBy(lock, who.owner) then return nil end
  if lock.mode == 'r' and who.mode == 'w' then return UPGRADE end
  if isFullFor(lock, who.owner) then return FULL end
  return 0, fenceToShare(lock, who.owner)
end

-- The last instant of a holder's lease, before its grace.
local function leaseEnd(holder)
  return whole(holder).ending - holder.graceMs
end

-- The last instant before somebody can be let in if nobody renews or releases: of a lock with permits that of the first to end; and
-- the last instant at which anybody holds it.
local function endsOf(lock)
  local first, last = math.huge, 0
  for _, holder in ipairs(lock.holders) do
    if holder.ending < first then first = holder.ending end
    if holder.ending > last then last = holder.ending end
  end
  return lock.mode == 'p' and first or last, last
end

-- For how many ms the key of a lock is kept, as text: until nobody holds it any more, and for at least so long.
local function keepMsOf(lock, leastMs)
  local _, last = endsOf(lock)
  return string.format('%.0f', math.max(last - now, leastMs or 0) + LOCK_GRACE_MS)
end

-- Adds a holder, in place of what it may have left of an earlier minHoldMs. `who` says id, fences, minHoldMs, graceMs,
-- owner and label; a fence is given where an owner shares one. The end may come before that of minHoldMs: who was let in from the
-- queue has to say by a renewal that it lives.
local function enter(lock, who, lengthMs, sharedFence)
  local _, left = holderOf(lock, '~' .. who.id)
  if left then table.remove(lock.holders, left) end
  local fences = sharedFence and 1 or who.fences
  local holder = {
    id = who.id, fence = sharedFence or nextFence(lock.fenceKey, lock.floor, fences), fences = fences,
    ending = now + lengthMs + who.graceMs, minEnd = who.minHoldMs > 0 and now + who.minHoldMs or 0,
    owner = who.owner, label = who.label, graceMs = who.graceMs, heardOf = 0, longMs = longMsOf(math.max(lengthMs, who.minHoldMs)),
  }
  lock.holders[#lock.holders + 1] = holder
  return holder
end

-- Adds a line that keeps the lock taken by nobody: it has no fences, and stands in for a holder with this one, if for any.
local function addNobody(lock, id, ending, fence)
  local owner = lock.mode == 'p' and string.format('%d', lock.permits) or '-'
  lock.holders[#lock.holders + 1] = { ending = ending, id = id, fence = fence or 0, fences = 0, minEnd = 0, owner = owner, label = '-', graceMs = 0, heardOf = 0, longMs = longMsOf(ending - now) }
end

local function writeLock(lock)
  if #lock.holders == 0 then
    redis.call('DEL', lock.lockKey)
    return
  end
  local text = formatLock(lock)
  if text ~= lock.text then
    -- Where nothing was deleted yet: this deletes nothing either, but after it a full server lets the next line through.
    if lock.frees and not lock.deleted then redis.call('HDEL', lock.queueKey, '@') end
    redis.call('SET', lock.lockKey, text, 'PX', keepMsOf(lock, lock.queued and WAITER_LEASE_MS))
  elseif lock.queue and lock.queue.isKept then
    local _, last = endsOf(lock)
    if last - now < WAITER_LEASE_MS then redis.call('PEXPIRE', lock.lockKey, WAITER_LEASE_MS + LOCK_GRACE_MS) end
  end
end

-- Tells an id, in one word, what has become of its hold, its turn or the lock.
local function tellId(lock, id, word)
  lock.messages[#lock.messages + 1] = { id, word .. ' ' .. id }
end

local function tellHolder(lock, holder, word)
  if not isReleased(holder) then tellId(lock, holder.id, word) end
end

-- The channel of the process of an id.
local function channelOf(lock, id)
  return '{' .. string.match(lock.lockKey, '^{([^}]*):%d+}:l:') .. '}:c:' .. (string.match(id, '^(.*)%.') or id)
end

-- Messages are hints and come last: a user without the right to publish must not break a grant half way.
local function tell(lock)
  if #lock.messages == 0 then return end
  local key = string.match(lock.lockKey, '}:l:(.*)$')
  local contended = lock.queued and 1 or 0
  for _, message in ipairs(lock.messages) do
    local id, text, mode = message[1], message[2], message[3]
    if type(text) == 'table' then
      local ending = leaseEnd(text)
      text = string.format('g %s %.0f %d %s %.0f %.0f %d', id, text.fence, text.fences, mode, ending, ending - now, contended)
    end
    redis.pcall('PUBLISH', channelOf(lock, id), text .. ' ' .. key)
  end
end

-- Writes back what a script did to a lock, and tells whom that concerns.
local function closeLock(lock)
  writeLock(lock)
  tell(lock)
end
