-- Writes back what a script did to a lock, and tells whom it concerns.

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
  elseif lock.queue and lock.queue.isKept and lastEnd(lock) - lock.now < WAITER_LEASE_MS then
    redis.call('PEXPIRE', lock.lockKey, WAITER_LEASE_MS + LOCK_GRACE_MS)
  end
end

-- Messages are hints and come last: a user without the right to publish must not break a grant half way.
local function tell(lock)
  if #lock.told == 0 then return end
  local key = string.match(lock.lockKey, '}:l:(.*)$')
  local contended = lock.queued and 1 or 0
  for _, news in ipairs(lock.told) do
    local id, text, mode = news[1], news[2], news[3]
    if type(text) == 'table' then
      local ending = leaseEnd(text)
      text = string.format('g %s %.0f %d %s %.0f %.0f %d', id, text.fence, text.fences, mode, ending, ending - lock.now, contended)
    end
    redis.pcall('PUBLISH', channelOf(lock, id), text .. ' ' .. key)
  end
end

local function closeLock(lock)
  writeLock(lock)
  tell(lock)
end
