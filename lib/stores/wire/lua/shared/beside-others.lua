-- One hold beside others, taken and released on the text of the record: with a thousand of them a tenth of the time that it takes
-- to read all. That is a hold beside those of its owner, or a permit beside others while one is free and nobody waits. Both functions
-- give nothing back, and have done nothing, where the lock has to be read as a whole.

local function countLines(text)
  local lines, at = 0, 1
  while at do
    lines, at = lines + 1, string.find(text, '\n', at + 1, true)
  end
  return lines
end

-- The fence that a request shares with the holds of its owner, if it may stand beside them.
local function sharedFence(text, who, queued)
  -- Where the first holder writes and lives, all who hold are of its owner.
  local ending, firstId, fence, owner = string.match(text, '^(%d+) (%S+) (%d+) %d+ %d+ (%S+)', 5)
  if owner == nil or owner == '-' or owner ~= who.owner or string.sub(firstId, 1, 1) == '~' then return nil end
  if tonumber(ending) < now or tonumber(ending) > now + who.longestMs then return nil end
  if queued == '1' and redis.call('HGET', who.queueKey, '@' .. who.id) then return nil end
  return countLines(text) < MAX_HOLDS_OF_OWNER and tonumber(fence) or nil
end

-- Whether a permit is free: holders that have ended are counted too, and are dropped when all permits seem to be taken.
local function hasFreePermit(text, who, queued)
  local permits = string.match(text, '^%d+ %S+ %d+ %d+ %d+ (%S+)', 5)
  return queued == '0' and permits == who.owner and countLines(text) < tonumber(permits)
end

-- Enters a request beside others that have the lock, unless it may be there or wait already. Returns its fence and the end of its lease.
local function joinAsText(text, who)
  local mode, queued = string.match(text, '^([wp])([01])1 ')
  if mode == nil or (mode == 'p') ~= (who.mode == 'p') or string.find(text, who.id .. ' ', 1, true) then return nil end
  local fence
  if mode == 'w' then
    fence = sharedFence(text, who, queued)
  elseif hasFreePermit(text, who, queued) then
    fence = nextFence(who.fenceKey, nowUs, who.floor, who.fences)
  end
  if not fence then return nil end
  local newEnd = now + math.max(who.leaseMs, who.minHoldMs) + who.graceMs
  local line = lineOf({
    ending = newEnd, id = who.id, fence = fence, fences = mode == 'p' and who.fences or 1, minEnd = who.minHoldMs > 0 and now + who.minHoldMs or 0,
    owner = who.owner, label = who.label, graceMs = who.graceMs,
  })
  -- No other lease can end later than the longest.
  local keepMs = math.max(who.longestMs, newEnd - now, WAITER_LEASE_MS) + LOCK_GRACE_MS
  redis.call('SET', who.lockKey, text .. '\n' .. line, 'PX', string.format('%.0f', keepMs))
  return fence, newEnd - who.graceMs
end

-- Takes a holder out of a lock that others go on to hold, so that it is nobody's turn. True when it was there.
local function leaveAsText(text, leaving)
  local id = leaving.id
  local mode, queued = string.match(text, '^(.)([01])1 ')
  local at = string.find(text, ' ' .. id .. ' ', 18, true)
  if not at or mode ~= 'w' and queued == '1' then return nil end
  local first, stop = at - 13, string.find(text, '\n', at, true)
  local ending, minEnd = string.match(string.sub(text, first, stop), '^(%d+) %S+ %d+ %d+ (%d+) ')
  -- Something that only looks like the id, such as an owner of that name.
  if not minEnd or first > 5 and string.sub(text, first - 1, first - 1) ~= '\n' then return nil end
  if tonumber(ending) < now or tonumber(minEnd) > now and not leaving.abandoned then return nil end
  local rest
  if first > 5 then
    rest = string.sub(text, 1, first - 2) .. (stop and string.sub(text, stop) or '')
  elseif stop then
    rest = string.sub(text, 1, 4) .. string.sub(text, stop + 1)
  end
  if not rest or tonumber(string.sub(rest, 5, 17)) < now then return nil end
  -- This deletes nothing, but after it a full server lets the next line through.
  redis.call('HDEL', leaving.queueKey, '@')
  redis.call('SET', leaving.lockKey, rest, 'KEEPTTL')
  return true
end
