-- One request beside the holders of a lock, and one release, on the text of the record: of a thousand lines only the ends are looked at,
-- a tenth of the time that it takes to read all; and a refusal costs no more than a grant. Both functions give nothing back, and have
-- done nothing, where the lock has to be read as a whole.

-- How many lines there are, and which ends first and last. Nothing where one has ended, or ends later than a lease can.
local function survey(text, longestMs)
  local nowText, latest = string.format(INSTANT, now), string.format(INSTANT, now + longestMs)
  local lines, at, first, last = 0, 4, latest, nowText
  while at do
    local ending = string.sub(text, at + 1, at + 13)
    if ending < nowText or ending > latest then return nil end
    if ending < first then first = ending end
    if ending > last then last = ending end
    lines, at = lines + 1, string.find(text, '\n', at + 13, true)
  end
  return lines, tonumber(first), tonumber(last)
end

-- The code of the answer, as acquire.lua gives it, and for a grant the fence that is shared, if one is.
local function answerAsText(text, who, memory, lines)
  local mode, queued = string.match(text, '^(.)(.)')
  local firstId, fence, owner = string.match(text, '^%d+ (%S+) (%d+) %d+ %d+ (%S+)', 5)
  local permits = mode == 'p' and owner or '0'
  if permits ~= (who.mode == 'p' and who.owner or '0') then return 8 end
  if mode == 'p' and lines < tonumber(permits) then return queued == '0' and 1 or nil end
  if mode == 'w' and owner ~= '-' and owner == who.owner then
    -- All who write are of one owner. A hold from before the server forgot something may not share its fence.
    if string.find(text, ' ~', 1, true) or #fence ~= 16 or fence < string.sub(memory, 18) then return nil end
    if lines >= MAX_HOLDS_OF_OWNER then return 6 end
    return 1, tonumber(fence)
  end
  if mode == 'r' and who.owner ~= '-' or mode == 'w' and string.sub(firstId, 1, 1) == '~' then return nil end
  if mode == 'r' and who.mode == 'r' then return queued == '0' and 1 or nil end
  return not who.queue and 3 or nil
end

-- What holdsOf() tells (stand-in.lua).
local function holdsAsText(text, memory, who)
  if who.recoveryMs == 0 then return '-' end
  local told, mode = {}, string.sub(text, 1, 1)
  for ending, id in string.gmatch(string.sub(text, 5), '(%d+) (%S+) [^\n]*') do
    if #told < MAX_TOLD then told[#told + 1] = string.format('%.0f,%s', tonumber(ending) - now, id) end
  end
  return string.sub(memory, 18) .. ',' .. mode .. (mode == 'p' and string.match(text, '^%d+ %S+ %d+ %d+ %d+ (%S+)', 5) or '') .. ',' .. table.concat(told, ',')
end

-- Answers a request for a lock that several hold, unless it may be there or wait already: with a hold beside theirs, or a refusal.
local function answerBesideOthers(text, who, memory)
  if string.sub(text, 3, 3) ~= '1' or string.find(text, who.id .. ' ', 1, true) then return nil end
  local queued = string.sub(text, 2, 2) == '1'
  if queued and redis.call('HGET', who.queueKey, '@' .. who.id) then return nil end
  local lines, first, last = survey(text, who.longestMs)
  if not lines then return nil end
  local code, shared = answerAsText(text, who, memory, lines)
  local mode = string.sub(text, 1, 1)
  if code == 3 then return { 3, now, (mode == 'p' and first or last) - now + 1, holdsAsText(text, memory, who) } end
  if code == 8 then return { 8, now, mode == 'p' and tonumber(string.match(text, '^%d+ %S+ %d+ %d+ %d+ (%S+)', 5)) or 0 } end
  if code ~= 1 then return code and { code, now } end
  local fences = shared and 1 or who.fences
  local fence = shared or nextFence(who.fenceKey, nowUs, who.floor, fences)
  local newEnd = now + math.max(who.leaseMs, who.minHoldMs) + who.graceMs
  local line = lineOf({
    ending = newEnd, id = who.id, fence = fence, fences = fences, minEnd = who.minHoldMs > 0 and now + who.minHoldMs or 0,
    owner = who.owner, label = who.label, graceMs = who.graceMs,
  })
  local keepMs = math.max(last - now, newEnd - now, WAITER_LEASE_MS) + LOCK_GRACE_MS
  redis.call('SET', who.lockKey, text .. '\n' .. line, 'PX', string.format('%.0f', keepMs))
  return { 1, now, fence, fences, mode == 'r' and 0 or 1, newEnd - who.graceMs, queued and 1 or 0, memory ~= who.known and memory or nil }
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
