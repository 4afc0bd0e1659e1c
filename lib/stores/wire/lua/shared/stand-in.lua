-- Who has to wait, or is refused, is told who holds the lock and for how long. When the server has forgotten that, it hears it from them:
-- with their next request each of those holders gets a stand-in, a line whose id has a ~ before it and which has no fences. It keeps the
-- lock taken until the end that was told, unless the server hears of the holder before: it brings its lease back, releases it, or asks for it.
--
--   1795236000100,w,1795236000123456,12000,web-1.7        what is told: since when the server remembers, the mode, the fence of the last
--   1795236000100,p3,1795236000123458,400,web-1.8,90,…    of them, and for each holder the ms that are left and its id; - for nothing
--
-- The ids that were heard of are kept in a hash of the slot group, because what is told of them may be told late: `<id>` <memory>.

local MAX_TOLD = 16 -- holders of a lock: with more of them, only the first are told of
local HEARD_MS = 600000 -- from then on nobody knows of an id that was told whether it was heard of, so nothing that is told counts

local function holdsOf(lock, request)
  if not lock.memory or lock.recoveryMs == 0 then return '-' end
  local told, last = {}, nil
  for i = 1, math.min(#lock.holders, MAX_TOLD) do
    local holder = lock.holders[i]
    if holder.id ~= RECOVERY then
      -- The holder may renew before this request asks again. The record says how long a lease of more than USUAL_LEASE_MS is. A shorter one is
      -- renewed when a third of it is over, so one and a half times what is left is not less than all of it.
      local graceMs, longMs = whole(holder).graceMs, holder.longMs
      local leftMs = holder.ending - now
      if not isReleased(holder) then
        if longMs == 0 then leftMs = math.max(leftMs, math.min((leftMs - graceMs) * 1.5, USUAL_LEASE_MS) + graceMs) end
        leftMs = math.max(leftMs, request.leaseMs, longMs)
      end
      told[#told + 1], last = string.format('%.0f,%s', leftMs, holder.id), holder
    end
  end
  if not last then return '-' end
  local mode = lock.mode .. (lock.mode == 'p' and string.format('%d', lock.permits) or '')
  return string.format('%.0f,%s,%.0f,%s', beganAt(lock), mode, whole(last).fence, table.concat(told, ','))
end

local function heardKey(lock)
  return string.sub(lock.fenceKey, 1, -2) .. 'q:%heard'
end

-- A full server does not keep the note: then the lock stays taken for a while. To a node of a Redlock nobody tells of holders.
local function heardOf(lock, id)
  local leftMs = beganAt(lock) + HEARD_MS - now
  if leftMs <= 0 or lock.recoveryMs == UNTIL_TOLD_MS then return end
  redis.pcall('HSET', heardKey(lock), id, lock.memory)
  redis.pcall('PEXPIRE', heardKey(lock), leftMs)
end

local function isStandIn(holder)
  return isReleased(holder) and whole(holder).fences == 0
end

-- Takes away the stand-in of this id, or all of them; whether there was one.
local function dropStandIns(lock, id)
  local kept = {}
  for _, holder in ipairs(lock.holders) do
    if not isStandIn(holder) or id and holder.id ~= '~' .. id then kept[#kept + 1] = holder end
  end
  local dropped = #kept < #lock.holders
  lock.holders = kept
  return dropped
end

-- Notes that the server has heard of an id, because its process has released it or asks for it. True if it was only forgotten, so that it
-- counts as released.
local function wasForgotten(lock, id)
  if lock.recoveryMs == 0 then return false end
  recoveryOf(lock)
  heardOf(lock, id)
  return dropStandIns(lock, id) or lock.hasForgotten
end

-- Takes an id away. True, or its record among those who wait, if it was there, or was only forgotten. Unless this memory granted the lock to
-- the id, an earlier one may have, and others may tell of that later, also when its record was kept. So the server notes that it heard of the id.
local function takeAway(lock, id, abandoned)
  if lock.recoveryMs == 0 then return leave(lock, id, abandoned) end
  local holder = holderOf(lock, id)
  local told = recoveryOf(lock) > 0 or holderOf(lock, '~' .. id) or holder and whole(holder).fence < beganAt(lock) * 1000
  local there = leave(lock, id, abandoned)
  if type(there) == 'string' then told = told or isFromBefore(lock, id, there) end
  return there and not told or wasForgotten(lock, id) or there
end

-- True if this memory has heard of the holder: its process brought the lease back, released it, or asked for it.
local function wasHeardOf(lock, id)
  return redis.call('HGET', heardKey(lock), id) == lock.memory
end

-- A record that a restart kept may be newer than what is told, and that of a replica that lagged behind may be older. The fences say
-- which: of two holders that cannot have had the lock beside each other the one with the lower fence had ended before. This takes away those
-- who ended before what is told. False when one came after it, or has the lock from this memory, which granted it or has heard of it.
local function makeWay(lock, mode, fence)
  local sinceUs, kept, ended = beganAt(lock) * 1000, {}, {}
  for _, holder in ipairs(lock.holders) do
    if whole(holder).fence == fence or mode == lock.mode and (mode ~= 'w' or holder.owner ~= '-') then
      kept[#kept + 1] = holder
    elseif holder.fence > fence or not isStandIn(holder) and (holder.fence >= sinceUs or wasHeardOf(lock, holder.id)) then
      return false
    else
      ended[#ended + 1] = holder
    end
  end
  for _, holder in ipairs(ended) do tellHolder(lock, holder, 'l') end
  lock.holders = kept
  return true
end

-- Gives a stand-in to each holder of whom this request was told by an earlier memory, and nobody has heard since. Whether there is any.
local function standIn(lock, request)
  local agoMs, since, mode, permits, fence, holds = string.match(request.told, '^(%d+),(%d+),(%a)(%d*),(%d+),(.+)$')
  fence = tonumber(fence)
  if not since or tonumber(since) == beganAt(lock) or now > beganAt(lock) + HEARD_MS then return false end
  dropStandIns(lock, string.sub(RECOVERY, 2))
  if not makeWay(lock, mode, fence) then return false end
  for left, told in string.gmatch(holds, '(%d+),([^,]+)') do
    local id, isOver = string.gsub(told, '^~', '')
    local began, ending = beganAt(lock), now + tonumber(left) - tonumber(agoMs)
    -- It may have renewed until the server forgot.
    if isOver == 0 and ending > began then ending = math.max(ending, began + tonumber(left)) end
    local isFull = lock.mode == 'p' and #lock.holders > 0 and #lock.holders >= lock.permits
    local standsIn = holderOf(lock, '~' .. id)
    if standsIn then
      -- Who was told later may know of a renewal that others had not heard of.
      standsIn.ending = math.max(standsIn.ending, ending)
    elseif ending > now and not isFull and not holderOf(lock, id) and not wasHeardOf(lock, id) then
      if #lock.holders == 0 then lock.mode, lock.permits = mode, tonumber(permits) or 0 end
      addNobody(lock, '~' .. id, ending, fence)
    end
  end
  for _, holder in ipairs(lock.holders) do
    if isStandIn(holder) then return true end
  end
  return false
end
