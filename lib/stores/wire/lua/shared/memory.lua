-- Which memory of which server stands behind the last fence of a slot group, and whether it may grant.
--
--   <last fence> <memory>            it remembers all that it granted
--   <last fence> <memory> <open at>  it may have forgotten something: before this server time it grants nothing new, so that
--                                    those who hold can bring their leases back
--   … <claimed until> <processes>    these processes have said that they hold something in the group and have not brought all of
--                                    it back: it stays closed until they have, or until this server time
--
-- A memory is named `<server><since>`: sixteen letters of the server's run id and a colon, or in a Cluster eight of the run id,
-- eight of the node's id and an @; and the server time in ms from which it counts. A server that was promoted has a hash of its run
-- id and of what it was promoted from in place of the run id. Another run id is a restart, a promotion, or another server in this one's
-- place; no record at all is a server that came up empty or was flushed. Whichever script comes first notices it.
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

-- A master that another one replaced, and that takes its place again, still has its run id, and may lack what the other one granted,
-- because it has not followed that yet. But each promotion gives it another second replication id. Before the first that is all zeros.
local function sincePromotion(runId)
  local info = redis.pcall('INFO', 'replication')
  local promotedFrom = type(info) == 'string' and string.match(info, 'master_replid2:(%w*[1-9a-f]%w*)')
  return promotedFrom and redis.sha1hex(runId .. promotedFrom) or runId
end

-- Redis says redis_mode, Valkey from 8.0 on server_mode.
local function thisServer()
  if server then return server end
  local info = redis.pcall('INFO', 'server')
  local runId = type(info) == 'string' and string.match(info, 'run_id:(%w+)')
  runId = runId and sincePromotion(runId)
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

-- True if the server that told of this memory, on the connection of this request, is the one that runs the script. In a Cluster
-- the caller does not know which node that will be.
local function isOfThisNode(memory)
  return string.sub(memory, 17, 17) ~= '@' or string.sub(memory, 9, 16) == thisNode()
end

local forgot = false

-- A claim keeps its group closed for so long, in ms, and all claims together for so long after the server forgot.
local CLAIM_MS, ALL_CLAIMS_MS = 5000, 15000

-- A deleting write comes first: after it a full server lets the other through.
local function writeFence(fenceKey, last, rest)
  redis.call('DEL', fenceKey)
  redis.call('SET', fenceKey, string.format('%.0f', last) .. rest)
end

-- The claims of a record after a process has said whether it still holds what it has not brought back.
local function withClaim(claims, since, claim)
  local others, claimedUntil = {}, tonumber(string.match(claims, '^ (%d+)')) or 0
  for process in string.gmatch(string.gsub(claims, '^ %d+', ''), '%S+') do
    if process ~= claim.process then others[#others + 1] = process end
  end
  if claim.holds then
    others[#others + 1] = claim.process
    claimedUntil = math.min(now + CLAIM_MS, since + ALL_CLAIMS_MS)
  end
  return #others > 0 and ' ' .. string.format(INSTANT, claimedUntil) .. ' ' .. table.concat(others, ' ') or ''
end

-- Begins a recovery, and tells all processes once in a script: a flush breaks no connection. The message names the slot group.
local function beginRecovery(fenceKey, seen, recoveryMs, claim)
  local memory = thisServer() .. string.format(INSTANT, now)
  local claims = recoveryMs > 0 and claim and withClaim('', now, claim) or ''
  local closed = recoveryMs > 0 and ' ' .. string.format(INSTANT, now + recoveryMs) .. claims or ''
  -- The fences of a Redlock come from processes, and a node of it that never granted anything is known by having none.
  local last = recoveryMs < UNTIL_TOLD_MS and math.max(seen, nowUs) or seen
  writeFence(fenceKey, last, ' ' .. memory .. closed)
  if not forgot then
    forgot = true
    local prefix, group = string.match(fenceKey, '^({[^}]*):(%d+)}')
    redis.pcall('PUBLISH', prefix .. '}:c:~', 'f ' .. memory .. ' ' .. group)
  end
  return memory, math.max(recoveryMs, claims ~= '' and CLAIM_MS or 0), recoveryMs > 0, last
end

-- Returns the memory, for how many ms more it grants nothing new, whether it has forgotten something and let nobody new in
-- since: then an id that is not there was not beaten by anybody; and the last fence. `known` is the memory that the server told the caller on this
-- connection, or a dash, and `floor` the highest fence that the caller has seen. A fence beyond the record, or a later memory of this
-- server, shows that the record was put back to an earlier state. `claim` is what a process says of its holds (recall.lua).
local function readMemory(fenceKey, known, floor, recoveryMs, claim)
  local record = redis.call('GET', fenceKey)
  floor = math.min(floor, HIGHEST_FLOOR)
  if not record then return beginRecovery(fenceKey, floor, recoveryMs, claim) end
  local last, memory, openAt, claims = string.match(record, '^(%d+) ?(%S*) ?(%d*)(.*)$')
  last = tonumber(last)
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local isOurs = memory == known and isOfThisNode(memory) or string.sub(memory, 1, 17) == thisServer()
  local since = tonumber(string.sub(memory, 18))
  local hasForgotten = openAt ~= ''
  if claim and hasForgotten then claims = withClaim(claims, since, claim) end
  -- The longest recoveryMs counts of all processes that come before somebody new is let in.
  local opensAt = hasForgotten and math.max(tonumber(openAt), since + recoveryMs) or 0
  local closedUntil = math.max(opensAt, tonumber(string.match(claims, '^ (%d+)')) or 0)
  local recovers = closedUntil > now
  -- To a node of a Redlock higher fences come from other nodes, and show nothing.
  local putBack = floor > last and not recovers and recoveryMs < UNTIL_TOLD_MS or string.sub(known, 1, 17) == string.sub(memory, 1, 17) and known > memory
  local clockSetBack = hasForgotten and since > now
  if not isOurs or putBack or clockSetBack then return beginRecovery(fenceKey, math.max(last, floor), recoveryMs, claim) end
  if not hasForgotten and floor <= last then return memory, 0, false, last end
  -- Only a request that may let somebody in ends the recovery.
  local rest = ' ' .. memory .. (hasForgotten and (recovers or claim) and ' ' .. string.format(INSTANT, opensAt) .. claims or '')
  if rest ~= string.match(record, ' .*$') or floor > last then writeFence(fenceKey, math.max(last, floor), rest) end
  return memory, recovers and closedUntil - now or 0, hasForgotten, math.max(last, floor)
end

-- Stands in the place of a holder while a lock is kept for whoever may bring it back.
local RECOVERY = '~recovery'

-- For how many ms more nobody new may be let into the lock. Asked for the first time, it reads the memory.
local function recoveryOf(lock)
  if not lock.recoversForMs then
    lock.memory, lock.recoversForMs, lock.hasForgotten = readMemory(lock.fenceKey, lock.known, lock.floor, lock.recoveryMs)
  end
  return lock.recoversForMs
end

-- Reserves `count` consecutive fences and returns the first: above the slot group's last one, above what the caller has
-- seen (`floor`), and at least the clock, so that a server that lost its memory does not start again from below. What else
-- stands in the record stays.
local function nextFence(fenceKey, floor, count)
  local last, rest = string.match(redis.call('GET', fenceKey) or '0', '^(%d+)(.*)$')
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local fence = math.max(nowUs, math.min(floor, HIGHEST_FLOOR) + 1, last + 1)
  redis.call('SET', fenceKey, string.format('%.0f', fence + count - 1) .. rest)
  return fence
end
