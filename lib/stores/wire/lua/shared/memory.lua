-- Which memory of which server stands behind the last fence of a slot group, and whether it may grant.
--
--   <last fence> <memory>            it remembers all that it granted
--   <last fence> <memory> <open at>  it may have forgotten something: before this server time it grants nothing new, so that
--                                    those who hold can bring their leases back
--
-- A memory is named `<server><since>`: sixteen letters of the server's run id and a colon, or in a Cluster eight of the run id,
-- eight of the node's id and an @; and the server time in ms from which it counts. Another run id is a restart, or another server
-- in this one's place; no record at all is a server that came up empty or was flushed. Whichever script comes first notices it.
--
--   0123456789abcdef:1795236000000
--   1              17
--
-- So of a memory the columns 1 to 17 are the server, where the colon or the @ in column 17 says whether it is one of a Cluster, and the
-- time stands from column 18 on. In a record whose fence has sixteen digits, the memory begins with column 18 (acquire.lua).

-- A user without the right to ask who the server is has no recovery but from a flush.
local NO_SERVER = '0000000000000000:'

-- Both are asked at most once in a script.
local server, myId

local function thisNode()
  if not myId then
    local told = redis.pcall('CLUSTER', 'MYID')
    myId = type(told) == 'string' and string.sub(told, 1, 8) or '-'
  end
  return myId
end

-- Redis says redis_mode, Valkey from 8.0 on server_mode.
local function thisServer()
  if server then return server end
  local info = redis.pcall('INFO', 'server')
  local runId = type(info) == 'string' and string.match(info, 'run_id:(%w+)')
  if not runId then
    server = NO_SERVER
  elseif not string.find(info, '_mode:cluster', 1, true) then
    server = string.sub(runId, 1, 16) .. ':'
  elseif thisNode() == '-' then
    server = NO_SERVER
  else
    server = string.sub(runId, 1, 8) .. thisNode() .. '@'
  end
  return server
end

-- Whether the server that told of this memory, on the connection of this request, is the one that runs the script. In a Cluster
-- the caller does not know which node that will be.
local function isOfThisNode(memory)
  return string.sub(memory, 17, 17) ~= '@' or string.sub(memory, 9, 16) == thisNode()
end

local forgot = false

-- A deleting write comes first: after it a full server lets the other through.
local function writeFence(fenceKey, last, rest)
  redis.call('DEL', fenceKey)
  redis.call('SET', fenceKey, string.format('%.0f', last) .. rest)
end

-- Begins a recovery, and tells all processes once in a script: a flush breaks no connection.
local function beginRecovery(fenceKey, seen, recoveryMs)
  local memory = thisServer() .. string.format(INSTANT, now)
  writeFence(fenceKey, math.max(seen, nowUs), ' ' .. memory .. (recoveryMs > 0 and ' ' .. string.format(INSTANT, now + recoveryMs) or ''))
  if not forgot then
    forgot = true
    redis.pcall('PUBLISH', string.match(fenceKey, '^({[^}]*):%d+}') .. '}:c:~', 'f ' .. memory)
  end
  return memory, recoveryMs, recoveryMs > 0
end

-- Returns the memory, for how many ms more it grants nothing new, and whether it has forgotten something and let nobody new in
-- since: then an id that is not there was not beaten by anybody. `known` is the memory that the server told the caller on this
-- connection, and `floor` the highest fence that the caller has seen. A fence beyond the record, or a later memory of this
-- server, shows that the record was put back to an earlier state.
local function readMemory(fenceKey, known, floor, recoveryMs)
  local record = redis.call('GET', fenceKey)
  if not record then return beginRecovery(fenceKey, math.min(floor, HIGHEST_FLOOR), recoveryMs) end
  local last, memory, openAt = string.match(record, '^(%d+) ?(%S*) ?(%d*)$')
  last = tonumber(last)
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local isOurs = memory == known and isOfThisNode(memory) or string.sub(memory, 1, 17) == thisServer()
  floor = math.min(floor, HIGHEST_FLOOR)
  local since = tonumber(string.sub(memory, 18))
  -- The longest recoveryMs counts of all processes that come before somebody new is let in.
  local opensAt = openAt ~= '' and math.max(tonumber(openAt), since + recoveryMs) or 0
  local recovers = opensAt > now
  local putBack = floor > last and not recovers or string.sub(known, 1, 17) == string.sub(memory, 1, 17) and known > memory
  local clockSetBack = openAt ~= '' and since > now
  if not isOurs or putBack or clockSetBack then return beginRecovery(fenceKey, math.max(last, floor), recoveryMs) end
  if openAt == '' then return memory, 0, false end
  local opens = recovers and ' ' .. string.format(INSTANT, opensAt) or ''
  if opens ~= ' ' .. openAt or floor > last then writeFence(fenceKey, math.max(last, floor), ' ' .. memory .. opens) end
  return memory, recovers and opensAt - now or 0, true
end

-- Who has just brought a lease back may have many more: the server stays closed for recoveryMs from now on, but not for longer
-- after it forgot than a lease can last. The record is written anew only when half of that has passed.
local function awaitMore(fenceKey, memory, recoversForMs, recoveryMs, longestMs)
  if recoversForMs <= 0 or recoversForMs > recoveryMs / 2 then return end
  local opensAt = math.min(now + recoveryMs, tonumber(string.sub(memory, 18)) + longestMs)
  if opensAt <= now + recoversForMs then return end
  local last = string.match(redis.call('GET', fenceKey), '^%d+')
  writeFence(fenceKey, tonumber(last), ' ' .. memory .. ' ' .. string.format(INSTANT, opensAt))
end

-- Whether an id that is not in its lock was only forgotten, so that it counts as released.
local function isOnlyForgotten(who)
  if who.recoveryMs == 0 then return false end
  local _, _, hasForgotten = readMemory(who.fenceKey, who.known, who.floor, who.recoveryMs)
  return hasForgotten
end

-- Stands in the place of a holder while a lock is kept for whoever may bring it back.
local RECOVERY = '~recovery'

-- For how many ms more nobody new may be let into the lock. A node of a Redlock has no recoveryMs: it stays out of votes (epoch.lua).
local function recoveryOf(lock)
  if not lock.recoveryMs and not lock.recoversForMs then return 0 end
  if not lock.recoversForMs then
    lock.memory, lock.recoversForMs = readMemory(lock.fenceKey, lock.known, lock.floor, lock.recoveryMs)
  end
  return lock.recoversForMs
end
