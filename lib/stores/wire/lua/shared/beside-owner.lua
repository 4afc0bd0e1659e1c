-- One hold among many of its owner, taken and released on the text of the record: with a thousand of them a tenth of the time
-- that it takes to read all. A permit is given back in the same way while nobody waits. Both give nothing back, and have done nothing, where the lock has to be read as a whole.

-- Enters a request beside the holds of its owner, unless it may be there or wait already. Returns the fence that they share
-- and the end of its lease.
local function joinAsText(text, who)
  local longestMs, lengthMs = who.longestMs, math.max(who.leaseMs, who.minHoldMs)
  -- Where the first holder writes and lives, all who hold are of its owner.
  local queued, ending, firstId, fence, owner = string.match(text, '^w([01])1 (%d+) (%S+) (%d+) %d+ %d+ (%S+)')
  if owner == nil or owner == '-' or owner ~= who.owner or string.sub(firstId, 1, 1) == '~' then return nil end
  if tonumber(ending) < now or tonumber(ending) > now + longestMs or string.find(text, who.id .. ' ', 1, true) then return nil end
  if queued == '1' and redis.call('HGET', who.queueKey, '@' .. who.id) then return nil end
  local lines, at = 0, 1
  while at do
    lines, at = lines + 1, string.find(text, '\n', at + 1, true)
  end
  if lines >= MOST_HOLDS_OF_OWNER then return nil end
  local newEnd = now + lengthMs + who.graceMs
  local line = lineOf({
    ending = newEnd, id = who.id, fence = tonumber(fence), fences = 1, minEnd = who.minHoldMs > 0 and now + who.minHoldMs or 0,
    owner = who.owner, label = who.label, graceMs = who.graceMs,
  })
  -- No other lease can end later than the longest.
  local keepMs = math.max(longestMs, newEnd - now, WAITER_LEASE_MS) + LOCK_GRACE_MS
  redis.call('SET', who.lockKey, text .. '\n' .. line, 'PX', string.format('%.0f', keepMs))
  return tonumber(fence), newEnd - who.graceMs
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
