// Made by scripts/build-lua.mjs from lua/*.lua; never edited.
import type { LockMode } from '../../core/port/lock-options.js';
import { fromField, toField } from './redis-keys.js';
import { eachOf, listOf, UnexpectedReplyError } from './store-failure.js';

/** A script as it is sent. */
export interface LuaScript {
  readonly name: string;
  readonly sha1: string;
  readonly source: string;
}

export type ScriptArgument = string | number;

/** A reply that is a list. */
export type ReplyItems = readonly (number | string)[];

/** A script with what it is given. */
export interface BuiltCall {
  readonly script: LuaScript;
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
}

/** What scripts share: the declarations of lua/shared, each by the first name that it declares. */
const shared = {
  time: `local time = redis.call('TIME')`,
  nowUs: `local nowUs = time[1] * 1000000 + time[2]`,
  now: `local now = math.floor(nowUs / 1000)`,
  server: `local server, myId`,
  thisNode: `local function thisNode()
  if not myId then
    local told = redis.pcall('CLUSTER', 'MYID')
    myId = type(told) == 'string' and string.sub(told, 1, 8) or '-'
  end
  return myId
end`,
  sincePromotion: `local function sincePromotion(runId)
  local info = redis.pcall('INFO', 'replication')
  local promotedFrom = type(info) == 'string' and string.match(info, 'master_replid2:(%w*[1-9a-f]%w*)')
  return promotedFrom and redis.sha1hex(runId .. promotedFrom) or runId
end`,
  thisServer: `local function thisServer()
  if server then return server end
  local info = redis.pcall('INFO', 'server')
  local runId = type(info) == 'string' and string.match(info, 'run_id:(%w+)')
  runId = runId and sincePromotion(runId)
  if not runId then
    server = '0000000000000000:'
  elseif not string.find(info, '_mode:cluster', 1, true) then
    server = string.sub(runId, 1, 16) .. ':'
  elseif thisNode() == '-' then
    server = '0000000000000000:'
  else
    server = string.sub(runId, 1, 8) .. thisNode() .. '@'
  end
  return server
end`,
  isOfThisNode: `local function isOfThisNode(memory)
  return string.sub(memory, 17, 17) ~= '@' or string.sub(memory, 9, 16) == thisNode()
end`,
  forgot: `local forgot = false`,
  writeFence: `local function writeFence(fenceKey, last, rest)
  redis.call('DEL', fenceKey)
  redis.call('SET', fenceKey, string.format('%.0f', last) .. rest)
end`,
  withClaim: `local function withClaim(claims, since, claim)
  local others, claimedUntil = {}, tonumber(string.match(claims, '^ (%d+)')) or 0
  for process in string.gmatch(string.gsub(claims, '^ %d+', ''), '%S+') do
    if process ~= claim.process then others[#others + 1] = process end
  end
  if claim.holds then
    others[#others + 1] = claim.process
    claimedUntil = math.min(now + 5000, since + 15000)
  end
  return #others > 0 and ' ' .. string.format('%013.0f', claimedUntil) .. ' ' .. table.concat(others, ' ') or ''
end`,
  beginRecovery: `local function beginRecovery(fenceKey, seen, recoveryMs, claim)
  local memory = thisServer() .. string.format('%013.0f', now)
  local claims = recoveryMs > 0 and claim and withClaim('', now, claim) or ''
  local closed = recoveryMs > 0 and ' ' .. string.format('%013.0f', now + recoveryMs) .. claims or ''
  local last = recoveryMs < 1000000000000 and math.max(seen, nowUs) or seen
  writeFence(fenceKey, last, ' ' .. memory .. closed)
  if not forgot then
    forgot = true
    local prefix, group = string.match(fenceKey, '^({[^}]*):(%d+)}')
    redis.pcall('PUBLISH', prefix .. '}:c:~', 'f ' .. memory .. ' ' .. group)
  end
  return memory, math.max(recoveryMs, claims ~= '' and 5000 or 0), recoveryMs > 0, last
end`,
  readMemory: `local function readMemory(fenceKey, known, floor, recoveryMs, claim)
  local record = redis.call('GET', fenceKey)
  floor = math.min(floor, 4503599627370496)
  if not record then return beginRecovery(fenceKey, floor, recoveryMs, claim) end
  local last, memory, openAt, claims = string.match(record, '^(%d+) ?(%S*) ?(%d*)(.*)$')
  last = tonumber(last)
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local isOurs = memory == known and isOfThisNode(memory) or string.sub(memory, 1, 17) == thisServer()
  local since = tonumber(string.sub(memory, 18))
  local hasForgotten = openAt ~= ''
  if claim and hasForgotten then claims = withClaim(claims, since, claim) end
  local opensAt = hasForgotten and math.max(tonumber(openAt), since + recoveryMs) or 0
  local closedUntil = math.max(opensAt, tonumber(string.match(claims, '^ (%d+)')) or 0)
  local recovers = closedUntil > now
  local putBack = floor > last and not recovers and recoveryMs < 1000000000000 or string.sub(known, 1, 17) == string.sub(memory, 1, 17) and known > memory
  local clockSetBack = hasForgotten and since > now
  if not isOurs or putBack or clockSetBack then return beginRecovery(fenceKey, math.max(last, floor), recoveryMs, claim) end
  if not hasForgotten and floor <= last then return memory, 0, false, last end
  local rest = ' ' .. memory .. (hasForgotten and (recovers or claim) and ' ' .. string.format('%013.0f', opensAt) .. claims or '')
  if rest ~= string.match(record, ' .*$') or floor > last then writeFence(fenceKey, math.max(last, floor), rest) end
  return memory, recovers and closedUntil - now or 0, hasForgotten, math.max(last, floor)
end`,
  recoveryOf: `local function recoveryOf(lock)
  if not lock.recoversForMs then
    lock.memory, lock.recoversForMs, lock.hasForgotten = readMemory(lock.fenceKey, lock.known, lock.floor, lock.recoveryMs)
  end
  return lock.recoversForMs
end`,
  nextFence: `local function nextFence(fenceKey, floor, count)
  local last, rest = string.match(redis.call('GET', fenceKey) or '0', '^(%d+)(.*)$')
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local fence = math.max(nowUs, math.min(floor, 4503599627370496) + 1, last + 1)
  redis.call('SET', fenceKey, string.format('%.0f', fence + count - 1) .. rest)
  return fence
end`,
  wasCut: `local wasCut = false`,
  whole: `local function whole(holder)
  if not holder.line then return holder end
  local fence, fences, minEnd, owner, label, graceMs, heardOf, longMs = string.match(holder.line, '^%d+ %S+ (%d+) (%d+) (%d+) (%S+) (%S+) ?(%d*) ?(%d*) ?(%d*)$')
  holder.line, holder.fence, holder.fences, holder.owner, holder.label = nil, tonumber(fence), tonumber(fences), owner, label
  holder.graceMs, holder.heardOf, holder.longMs = tonumber(graceMs) or 0, tonumber(heardOf) or 0, tonumber(longMs) or 0
  local latest = now + math.max(holder.longMs, 60000)
  wasCut = wasCut or holder.ending > latest + holder.graceMs
  holder.ending, holder.minEnd = math.min(holder.ending, latest + holder.graceMs), math.min(tonumber(minEnd), latest)
  return holder
end`,
  holdersIn: `local function holdersIn(text)
  local holders = {}
  local latest, at, count, sub, find = now + 60000, #text > 4 and 5, 0, string.sub, string.find
  while at do
    local stop = find(text, '\\n', at, true)
    local ending = sub(text, at, at + 12) + 0
    if ending >= now then
      count = count + 1
      local holder = { line = sub(text, at, (stop or 0) - 1), ending = ending, id = sub(text, at + 14, find(text, ' ', at + 14, true) - 1) }
      holders[count] = ending > latest and whole(holder) or holder
    end
    at = stop and stop + 1
  end
  return holders
end`,
  openLock: `local function openLock(request)
  local text = redis.call('GET', request.lockKey) or ''
  local mode, permits, holders = string.sub(text, 1, 1), 0, holdersIn(text)
  if mode == 'p' then permits = tonumber(string.match(text, '^%d+ %S+ %d+ %d+ %d+ (%S+)', 5)) end
  return {
    text = text, mode = mode, permits = permits, queued = string.sub(text, 2, 2) == '1', marked = string.sub(text, 2, 2) == '2',
    holders = holders,
    lockKey = request.lockKey, queueKey = request.queueKey, fenceKey = request.fenceKey, floor = request.floor or 0,
    known = request.known or '-', recoveryMs = request.recoveryMs, messages = {}, asking = {},
  }
end`,
  longMsOf: `local function longMsOf(lengthMs)
  return lengthMs > 60000 and lengthMs or 0
end`,
  lineOf: `local function lineOf(holder)
  local line = string.format('%013.0f' .. ' %s %.0f %d %.0f %s %s',
    holder.ending, holder.id, holder.fence, holder.fences, holder.minEnd, holder.owner, holder.label)
  if holder.graceMs + holder.heardOf + holder.longMs == 0 then return line end
  return line .. string.format(' %.0f %.0f %.0f', holder.graceMs, holder.heardOf, holder.longMs)
end`,
  formatLock: `local function formatLock(lock)
  local lines, odd = {}, #lock.holders > 1 or whole(lock.holders[1]).minEnd > 0
  for i, holder in ipairs(lock.holders) do lines[i] = holder.line or lineOf(holder) end
  return lock.mode .. (lock.queued and '1' or lock.marked and '2' or '0') .. (odd and '1 ' or '0 ') .. table.concat(lines, '\\n')
end`,
  holderOf: `local function holderOf(lock, id)
  for i, holder in ipairs(lock.holders) do
    if holder.id == id then return whole(holder), i end
  end
end`,
  isReleased: `local function isReleased(holder)
  return string.sub(holder.id, 1, 1) == '~'
end`,
  removeHolder: `local function removeHolder(lock, id, abandoned)
  local holder, position = holderOf(lock, id)
  if not holder then return false end
  if holder.minEnd <= now or abandoned then
    table.remove(lock.holders, position)
    return true
  end
  holder.id, holder.ending, holder.graceMs = '~' .. id, holder.minEnd, 0
  for i, other in ipairs(lock.holders) do
    if lock.mode ~= 'p' and i ~= position and isReleased(other) then
      table.remove(lock.holders, other.ending > holder.ending and position or i)
      break
    end
  end
  return true
end`,
  permitsOf: `local function permitsOf(request)
  return request.mode == 'p' and tonumber(request.owner) or 0
end`,
  ownedBy: `local function ownedBy(lock, owner)
  if owner == '-' or lock.mode == 'p' then return nil end
  for _, holder in ipairs(lock.holders) do
    if not isReleased(holder) then
      if whole(holder).owner == owner then return holder end
      if lock.mode == 'w' then return nil end
    end
  end
end`,
  beganAt: `local function beganAt(lock)
  return tonumber(string.sub(lock.memory, 18))
end`,
  fenceToShare: `local function fenceToShare(lock, owner)
  local since = lock.memory and beganAt(lock) or 0
  local shared
  for _, holder in ipairs(lock.holders) do
    if whole(holder).owner == owner and not isReleased(holder) then
      if holder.fence >= since * 1000 then return math.max(shared or 0, holder.fence) end
      if holder.heardOf >= since then shared = math.max(shared or 0, holder.fence) end
    end
  end
  return shared
end`,
  isFullFor: `local function isFullFor(lock, owner)
  local holds = #lock.holders
  if holds < 1000 then return false end
  for _, holder in ipairs(lock.holders) do
    if isReleased(holder) or lock.mode == 'r' and whole(holder).owner ~= owner then holds = holds - 1 end
  end
  return holds >= 1000
end`,
  besideOwner: `local function besideOwner(lock, who)
  if not ownedBy(lock, who.owner) then return nil end
  if lock.mode == 'r' and who.mode == 'w' then return 4 end
  if isFullFor(lock, who.owner) then return 6 end
  return 0, fenceToShare(lock, who.owner)
end`,
  leaseEnd: `local function leaseEnd(holder)
  return whole(holder).ending - holder.graceMs
end`,
  endsOf: `local function endsOf(lock)
  local first, last = math.huge, 0
  for _, holder in ipairs(lock.holders) do
    if holder.ending < first then first = holder.ending end
    if holder.ending > last then last = holder.ending end
  end
  return lock.mode == 'p' and first or last, last
end`,
  keepMsOf: `local function keepMsOf(lock, leastMs)
  local _, last = endsOf(lock)
  return string.format('%.0f', math.max(last - now, leastMs or 0) + 1000)
end`,
  enter: `local function enter(lock, who, lengthMs, sharedFence)
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
end`,
  addNobody: `local function addNobody(lock, id, ending, fence)
  local owner = lock.mode == 'p' and string.format('%d', lock.permits) or '-'
  lock.holders[#lock.holders + 1] = { ending = ending, id = id, fence = fence or 0, fences = 0, minEnd = 0, owner = owner, label = '-', graceMs = 0, heardOf = 0, longMs = longMsOf(ending - now) }
end`,
  writeLock: `local function writeLock(lock)
  if #lock.holders == 0 then
    redis.call('DEL', lock.lockKey)
    return
  end
  local text = formatLock(lock)
  if text ~= lock.text then
    if lock.frees and not lock.deleted then redis.call('HDEL', lock.queueKey, '@') end
    redis.call('SET', lock.lockKey, text, 'PX', keepMsOf(lock, lock.queued and 2500))
  elseif lock.queue and lock.queue.isKept then
    local _, last = endsOf(lock)
    if last - now < 2500 then redis.call('PEXPIRE', lock.lockKey, 2500 + 1000) end
  end
end`,
  tellId: `local function tellId(lock, id, word)
  lock.messages[#lock.messages + 1] = { id, word .. ' ' .. id }
end`,
  tellHolder: `local function tellHolder(lock, holder, word)
  if not isReleased(holder) then tellId(lock, holder.id, word) end
end`,
  channelOf: `local function channelOf(lock, id)
  return '{' .. string.match(lock.lockKey, '^{([^}]*):%d+}:l:') .. '}:c:' .. (string.match(id, '^(.*)%.') or id)
end`,
  tell: `local function tell(lock)
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
end`,
  closeLock: `local function closeLock(lock)
  writeLock(lock)
  tell(lock)
end`,
  openQueue: `local function openQueue(lock, id)
  if lock.queue then return lock.queue, id and lock.queued and redis.call('HGET', lock.queueKey, '@' .. id) end
  local found = lock.queued and redis.call('HMGET', lock.queueKey, 'rh', 'rt', 'wh', 'wt', '@' .. (id or '')) or {}
  lock.queue = { head = { r = found[1], w = found[3] }, tail = { r = found[2], w = found[4] } }
  lock.queued = (found[1] or found[3]) and true or false
  return lock.queue, found[5]
end`,
  keepQueue: `local function keepQueue(lock)
  if not lock.queue.isKept then redis.call('PEXPIRE', lock.queueKey, 2500 + 500) end
  lock.queue.isKept = true
end`,
  takeOut: `local function takeOut(lock, id)
  if not lock.queued then return false end
  local key, queue = lock.queueKey, openQueue(lock)
  local found = redis.call('HMGET', key, '@' .. id, '>' .. id, '<' .. id)
  local record, after, before = found[1], found[2], found[3]
  if not record then return false end
  local mode = string.sub(record, 15, 15)
  local toNext, toLast = before and '>' .. before or mode .. 'h', after and '<' .. after or mode .. 't'
  redis.call('HDEL', key, '@' .. id, '>' .. id, '<' .. id, toNext, toLast)
  lock.deleted = true
  if after then redis.call('HSET', key, toNext, after) end
  if before then redis.call('HSET', key, toLast, before) end
  if not before then queue.head[mode] = after end
  if not after then queue.tail[mode] = before end
  lock.queued = (queue.head.r or queue.head.w) and true or false
  return record
end`,
  isAlive: `local function isAlive(record)
  local ending = record and tonumber(string.sub(record, 1, 13))
  return ending and ending >= now and ending <= now + 2500
end`,
  readWaiter: `local function readWaiter(id, record)
  local mode, leaseMs, minHoldMs, graceMs, fences, owner, label = string.match(record, '^%S+ (.). (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {
    id = id, mode = mode, leaseMs = tonumber(leaseMs), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), fences = tonumber(fences), owner = owner, label = label,
  }
end`,
  isFromBefore: `local function isFromBefore(lock, id, record)
  if id == lock.witness then return false end
  local since = beganAt(lock)
  return since <= now and tonumber(string.sub(record, 1, 13)) < since + 2500
end`,
  liveFrom: `local function liveFrom(lock, id)
  while id do
    local found = redis.call('HMGET', lock.queueKey, '@' .. id, '>' .. id)
    if isAlive(found[1]) then return id, found[1], found[2] end
    if not takeOut(lock, id) then return nil end
    id = found[2]
  end
end`,
  firstWaiter: `local function firstWaiter(lock, mode)
  local head = openQueue(lock).head
  local id, record, after = liveFrom(lock, head[mode])
  if not id and head[mode] then
    redis.call('HDEL', lock.queueKey, mode .. 'h', mode .. 't')
    head[mode] = nil
    lock.queued = (head.r or head.w) and true or false
  end
  return id, record, after
end`,
  hearsOfItsTurn: `local function hearsOfItsTurn(lock, id, record)
  local turn = string.sub(record, 16, 16)
  if turn == '0' or lock.asking[id] then return true end
  if tonumber(string.sub(record, 1, 13)) < now + 2500 - 1200 then return false end
  return turn == '3' or redis.pcall('PUBSUB', 'NUMSUB', channelOf(lock, id))[2] ~= 0
end`,
  passOver: `local function passOver(lock, id, record)
  if string.sub(record, 16, 16) == '2' then return end
  redis.call('HDEL', lock.queueKey, '@')
  redis.call('HSET', lock.queueKey, '@' .. id, string.sub(record, 1, 15) .. '2' .. string.sub(record, 17))
end`,
  firstListening: `local function firstListening(lock, mode)
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and not hearsOfItsTurn(lock, id, record) do
    passOver(lock, id, record)
    passed = passed + 1
    if passed == 100 then return nil end
    id, record, after = liveFrom(lock, after)
  end
  return id, record, after
end`,
  tellHolders: `local function tellHolders(lock)
  local told = {}
  for _, holder in ipairs(lock.holders) do
    local name = lock.mode == 'p' and channelOf(lock, holder.id) or holder.id
    if not told[name] then tellHolder(lock, holder, 'c') end
    told[name] = true
  end
end`,
  joinQueue: `local function joinQueue(lock, who)
  local id, mode = who.id, who.mode == 'r' and 'r' or 'w'
  if not lock.queued then
    redis.call('DEL', lock.queueKey)
    lock.queue, lock.queued = { head = {}, tail = {} }, true
    tellHolders(lock)
  end
  local turn = who.needsListener and '1' or '3'
  local record = string.format('%013.0f' .. ' %s%s %.0f %.0f %.0f %d %s %s',
    now + 2500, mode, turn, who.leaseMs, who.minHoldMs, who.graceMs, who.fences, who.owner, who.label)
  local queue = openQueue(lock)
  local last = queue.tail[mode]
  redis.call('HSET', lock.queueKey, '@' .. id, record, mode .. 't', id, last and '>' .. last or mode .. 'h', id)
  if last then redis.call('HSET', lock.queueKey, '<' .. id, last) else queue.head[mode] = id end
  queue.tail[mode] = id
  keepQueue(lock)
end`,
  letIn: `local function letIn(lock, who, fence)
  takeOut(lock, who.id)
  local holder = enter(lock, who, math.min(who.leaseMs, 1500), fence)
  holder.longMs = math.max(holder.longMs, who.leaseMs)
  lock.messages[#lock.messages + 1] = { who.id, holder, lock.mode == 'r' and 'r' or 'w' }
  return holder
end`,
  enterBesideOwner: `local function enterBesideOwner(lock, id, record)
  local who = readWaiter(id, record)
  if who.owner == '-' or recoveryOf(lock) > 0 then return nil end
  local refusal, fence = besideOwner(lock, who)
  return refusal == 0 and letIn(lock, who, fence) or nil
end`,
  keepPlace: `local function keepPlace(lock, id)
  local _, record = openQueue(lock, id)
  if not record then return false end
  if not isAlive(record) then
    takeOut(lock, id)
    return false
  end
  local holder = enterBesideOwner(lock, id, record)
  if holder then return false, holder end
  keepQueue(lock)
  local turn = string.sub(record, 16, 16)
  if turn == '2' then turn = '0' end
  redis.call('HSET', lock.queueKey, '@' .. id, string.format('%013.0f', now + 2500) .. string.sub(record, 14, 15) .. turn .. string.sub(record, 17))
  return true
end`,
  admit: `local function admit(lock, mode, anybody)
  local most = lock.mode == 'p' and lock.permits or mode == 'r' and math.huge or 1
  local id, record, after = firstWaiter(lock, mode)
  local passed = 0
  while id and passed < 100 and #lock.holders < most do
    if not isFromBefore(lock, id, record) and (anybody or hearsOfItsTurn(lock, id, record)) then
      if lock.mode ~= 'p' then lock.mode = mode end
      letIn(lock, readWaiter(id, record))
    else
      passOver(lock, id, record)
      passed = passed + 1
    end
    id, record, after = liveFrom(lock, after)
  end
end`,
  admitNext: `local function admitNext(lock, anybody)
  local first, second = 'w', 'r'
  if lock.mode == 'w' then first, second = 'r', 'w' end
  admit(lock, first, anybody)
  if #lock.holders == 0 then admit(lock, second, anybody) end
end`,
  settle: `local function settle(lock)
  if not lock.queued then return end
  local recoversForMs = recoveryOf(lock)
  if recoversForMs > 0 then
    if #lock.holders == 0 then addNobody(lock, '~recovery', now + recoversForMs) end
    return
  end
  if #lock.holders == 1 and lock.holders[1].id == '~recovery' then lock.holders = {} end
  if lock.mode == 'r' and #lock.holders > 0 then
    if not firstListening(lock, 'w') then admit(lock, 'r') end
    return
  end
  local places = lock.mode == 'p' and lock.permits or 1
  if #lock.holders < places then admitNext(lock) end
  if #lock.holders < places and lock.queued then admitNext(lock, true) end
  if #lock.holders == 0 and lock.queued then addNobody(lock, '~recovery', beganAt(lock) + 2500) end
end`,
  nextInLine: `local function nextInLine(lock)
  local head = openQueue(lock).head
  if lock.mode == 'w' then return head.r or head.w end
  return head.w or head.r
end`,
  askAgainIn: `local function askAgainIn(lock, id)
  return nextInLine(lock) == id and endsOf(lock) - now + 1 or -1
end`,
  endsWithoutHolder: `local function endsWithoutHolder(lock)
  local ending = endsOf(lock)
  for _, holder in ipairs(lock.holders) do
    if holder.ending == ending and isReleased(holder) then return true end
  end
  return false
end`,
  leave: `local function leave(lock, id, abandoned)
  if not removeHolder(lock, id, abandoned) then return takeOut(lock, id) end
  lock.frees = true
  local waiter = lock.queued and endsWithoutHolder(lock) and nextInLine(lock)
  if waiter then tellId(lock, waiter, 't') end
  return true
end`,
  holdsOf: `local function holdsOf(lock, request)
  if not lock.memory or lock.recoveryMs == 0 then return '-' end
  local told, last = {}, nil
  for i = 1, math.min(#lock.holders, 16) do
    local holder = lock.holders[i]
    if holder.id ~= '~recovery' then
      local graceMs, longMs = whole(holder).graceMs, holder.longMs
      local leftMs = holder.ending - now
      if not isReleased(holder) then
        if longMs == 0 then leftMs = math.max(leftMs, math.min((leftMs - graceMs) * 1.5, 60000) + graceMs) end
        leftMs = math.max(leftMs, request.leaseMs, longMs)
      end
      told[#told + 1], last = string.format('%.0f,%s', leftMs, holder.id), holder
    end
  end
  if not last then return '-' end
  local mode = lock.mode .. (lock.mode == 'p' and string.format('%d', lock.permits) or '')
  return string.format('%.0f,%s,%.0f,%s', beganAt(lock), mode, whole(last).fence, table.concat(told, ','))
end`,
  heardKey: `local function heardKey(lock)
  return string.sub(lock.fenceKey, 1, -2) .. 'q:%heard'
end`,
  heardOf: `local function heardOf(lock, id)
  local leftMs = beganAt(lock) + 600000 - now
  if leftMs <= 0 or lock.recoveryMs == 1000000000000 then return end
  redis.pcall('HSET', heardKey(lock), id, lock.memory)
  redis.pcall('PEXPIRE', heardKey(lock), leftMs)
end`,
  isStandIn: `local function isStandIn(holder)
  return isReleased(holder) and whole(holder).fences == 0
end`,
  dropStandIns: `local function dropStandIns(lock, id)
  local kept = {}
  for _, holder in ipairs(lock.holders) do
    if not isStandIn(holder) or id and holder.id ~= '~' .. id then kept[#kept + 1] = holder end
  end
  local dropped = #kept < #lock.holders
  lock.holders = kept
  return dropped
end`,
  wasForgotten: `local function wasForgotten(lock, id)
  if lock.recoveryMs == 0 then return false end
  recoveryOf(lock)
  heardOf(lock, id)
  return dropStandIns(lock, id) or lock.hasForgotten
end`,
  takeAway: `local function takeAway(lock, id, abandoned)
  if lock.recoveryMs == 0 then return leave(lock, id, abandoned) end
  local holder = holderOf(lock, id)
  local told = recoveryOf(lock) > 0 or holderOf(lock, '~' .. id) or holder and whole(holder).fence < beganAt(lock) * 1000
  local there = leave(lock, id, abandoned)
  if type(there) == 'string' then told = told or isFromBefore(lock, id, there) end
  return there and not told or wasForgotten(lock, id) or there
end`,
  wasHeardOf: `local function wasHeardOf(lock, id)
  return redis.call('HGET', heardKey(lock), id) == lock.memory
end`,
  makeWay: `local function makeWay(lock, mode, fence)
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
end`,
  standIn: `local function standIn(lock, request)
  local agoMs, since, mode, permits, fence, holds = string.match(request.told, '^(%d+),(%d+),(%a)(%d*),(%d+),(.+)$')
  fence = tonumber(fence)
  if not since or tonumber(since) == beganAt(lock) or now > beganAt(lock) + 600000 then return false end
  dropStandIns(lock, string.sub('~recovery', 2))
  if not makeWay(lock, mode, fence) then return false end
  for left, told in string.gmatch(holds, '(%d+),([^,]+)') do
    local id, isOver = string.gsub(told, '^~', '')
    local began, ending = beganAt(lock), now + tonumber(left) - tonumber(agoMs)
    if isOver == 0 and ending > began then ending = math.max(ending, began + tonumber(left)) end
    local isFull = lock.mode == 'p' and #lock.holders > 0 and #lock.holders >= lock.permits
    local standsIn = holderOf(lock, '~' .. id)
    if standsIn then
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
end`,
  throwIfReplica: `local function throwIfReplica(refusal)
  local words = type(refusal) == 'table' and refusal.err or refusal
  if string.find(words, 'READONLY', 1, true) then error(refusal, 0) end
end`,
  orRefused: `local function orRefused(done, reply)
  if done then return reply end
  throwIfReplica(reply)
  return { 'refused', reply }
end`,
  openLine: `local function openLine(lock)
  local key = string.gsub(lock.lockKey, '}:l:', '}:m:', 1)
  local line = { key = key, marks = {}, text = redis.call('GET', key) or '' }
  local present = lock.holders[1]
  if present and string.sub(present.id, 1, 2) == '~>' then line.turn, lock.holders = present, {} end
  for ending, since, mode, id in string.gmatch(line.text, '(%d+) (%d+) ([wr]) (%S+)') do
    ending = tonumber(ending)
    if ending >= now and ending <= now + 1500 then
      line.marks[#line.marks + 1] = { ending = ending, since = tonumber(since), mode = mode, id = id }
    end
  end
  return line
end`,
  dropMark: `local function dropMark(line, id)
  for at, mark in ipairs(line.marks) do
    if mark.id == id then return table.remove(line.marks, at) end
  end
end`,
  addMark: `local function addMark(line, added)
  local marks = line.marks
  local at = #marks + 1
  while at > 1 and marks[at - 1].since > added.since do at = at - 1 end
  table.insert(marks, at, added)
  marks[32 + 1] = nil
end`,
  goesFirst: `local function goesFirst(line, id, mode, since)
  if line.turn then return line.turn.id == '~>' .. id end
  for _, mark in ipairs(line.marks) do
    if mark.since > since then return true end
    if mode == 'w' or mark.mode == 'w' then return false end
  end
  return true
end`,
  markWaiting: `local function markWaiting(lock, line)
  lock.marked = false
  for _, mark in ipairs(line.marks) do
    if lock.mode == 'w' or mark.mode == 'w' then
      lock.marked = true
      return
    end
    tellId(lock, mark.id, 't')
  end
end`,
  keepTurn: `local function keepTurn(lock, line)
  local first = line.marks[1]
  if line.turn or not first then
    lock.holders = { line.turn }
    return
  end
  lock.mode, lock.marked, first.ending = 'w', true, now + 500
  addNobody(lock, '~>' .. first.id, first.ending)
  tellId(lock, first.id, 't')
end`,
  writeLine: `local function writeLine(line)
  local lines = {}
  for i, mark in ipairs(line.marks) do
    lines[i] = string.format('%.0f %.0f %s %s', mark.ending, mark.since, mark.mode, mark.id)
  end
  local text = table.concat(lines, '\\n')
  if text == line.text then return end
  if text == '' then redis.call('DEL', line.key) else redis.pcall('SET', line.key, text, 'PX', 1500) end
end`,
  markOf: `local function markOf(request)
  local mode, waitedMs, id = string.match(request.mark, '^(%a),(%d+),(%S+)$')
  return mode and { ending = now + 1500, since = now - tonumber(waitedMs), mode = mode, id = id }
end`,
  passOn: `local function passOn(lock, request)
  local mark = markOf(request)
  if not lock.marked and not mark then return end
  local line = openLine(lock)
  dropMark(line, mark and mark.id or request.id)
  if mark then
    addMark(line, mark)
    lock.marked = true
  end
  if line.turn and line.turn.id == '~>' .. request.id then line.turn = nil end
  if #lock.holders == 0 then keepTurn(lock, line) end
  writeLine(line)
end`,
};

/** For how long the key of a lock is kept after its last lease, in ms (shared/limits.lua). */
const LOCK_GRACE_MS = 1000;

export const acquire: LuaScript = {
  name: 'acquire',
  sha1: 'b52325c0e9c280a8e24081817c066d97c8442211',
  source: [`local keys = KEYS
local args, count = ARGV, #ARGV`, shared.time, shared.nowUs, shared.now, `

local clock = time[1] .. string.sub('00000' .. time[2], -6)
local isUsual = #clock == 16
local nowText = isUsual and string.sub(clock, 1, 13) or string.format('%013.0f', now)
local replies, uncommon = {}, nil
for n = 1, count do
  local lockKey, fenceKey, notAfter, plain = keys[3 * n - 2], keys[3 * n], string.sub(args[n], 7, 19), string.sub(args[n], 4, 4)
  if nowText > notAfter then
    replies[n] = { 5, now }
  else
    local mode, takes, floor, known = string.sub(args[n], 1, 1), string.sub(args[n], 5, 5), string.sub(args[n], 21, 36), string.sub(args[n], 38, 67)
    local keepMs, id, owner, label = string.match(args[n], '^(%S+) (%S+) (%S+) (%S+)', 69)
    local isVote = takes == 'f'
    local fence = isVote and floor or clock
    local last = isUsual and plain == '1' and not redis.pcall('GET', lockKey) and redis.pcall('GET', fenceKey)
    if
      last
      and #last == 47
      and last < fence
      and (isVote and tonumber(floor) <= 4503599627370496 or floor <= last)
      and string.sub(last, 18) == known
      and (string.sub(known, 17, 17) == ':' or string.sub(redis.call('CLUSTER', 'MYID'), 1, 8) == string.sub(known, 9, 16))
    then
      redis.call('SET', fenceKey, fence .. ' ' .. known)
      redis.call('SET', lockKey, mode .. '00 ' .. now + keepMs - 1000 .. ' ' .. id .. ' ' .. fence .. ' 1 0 ' .. owner .. ' ' .. label, 'PX', keepMs)
      replies[n] = clock
    else
      uncommon = uncommon or {}
      uncommon[#uncommon + 1] = n
    end
  end
end
if not uncommon then return count == 1 and replies[1] or replies end`, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, shared.recoveryOf, shared.nextFence, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.holderOf, shared.isReleased, shared.removeHolder, shared.permitsOf, shared.ownedBy, shared.beganAt, shared.fenceToShare, shared.isFullFor, shared.besideOwner, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.enter, shared.addNobody, shared.writeLock, shared.tellId, shared.tellHolder, shared.channelOf, shared.tell, shared.closeLock, shared.openQueue, shared.keepQueue, shared.takeOut, shared.isAlive, shared.readWaiter, shared.isFromBefore, shared.liveFrom, shared.firstWaiter, shared.hearsOfItsTurn, shared.passOver, shared.firstListening, shared.tellHolders, shared.joinQueue, shared.letIn, shared.enterBesideOwner, shared.keepPlace, shared.admit, shared.admitNext, shared.settle, shared.nextInLine, shared.askAgainIn, shared.endsWithoutHolder, shared.leave, shared.holdsOf, shared.heardKey, shared.heardOf, shared.isStandIn, shared.dropStandIns, shared.wasForgotten, shared.takeAway, shared.wasHeardOf, shared.makeWay, shared.standIn, shared.throwIfReplica, shared.orRefused, `local function requestOf(n)
  local mode, queue, needsListener, plain, takes, notAfter, floor, known, keepMs, id, owner, label, fences, minHoldMs, graceMs, recoveryMs, replaces, told, mark = string.match(args[n], '^(.)(.)(.)(.)(.) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return { lockKey = keys[3 * n - 2], queueKey = keys[3 * n - 1], fenceKey = keys[3 * n], mode = mode, queue = queue == '1', needsListener = needsListener == '1', plain = plain == '1', takes = takes, notAfter = tonumber(notAfter), floor = tonumber(floor), known = known, keepMs = keepMs, id = id, owner = owner, label = label, fences = tonumber(fences), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), recoveryMs = tonumber(recoveryMs), replaces = replaces, told = told, mark = mark }
end
local function granted(lock, request, holder)
  local contended = (lock.queued or lock.marked) and 1 or 0
  return { 1, now, holder.fence, holder.fences, lock.mode == 'r' and 0 or 1, leaseEnd(holder), contended, lock.memory ~= request.known and lock.memory or nil }
end
local function waiting(lock, request)
  return { 2, now, askAgainIn(lock, request.id), holdsOf(lock, request) }
end
local function answer(lock, request)
  local id, mode, permits = request.id, request.mode, permitsOf(request)
  local own = holderOf(lock, id)
  if own then return granted(lock, request, own) end
  local waits, entered = keepPlace(lock, id)
  if waits then return waiting(lock, request) end
  if entered then return granted(lock, request, entered) end
  local recovers, isFree = recoveryOf(lock) > 0, #lock.holders == 0
  if recovers and not lock.standsIn then return { 7, now, lock.recoversForMs } end
  if not isFree and permits ~= lock.permits then return { 8, now, lock.permits } end
  if not recovers then
    local refusal, fence = besideOwner(lock, request)
    if refusal and refusal > 0 then return { refusal, now } end
    if isFree then lock.mode, lock.permits = mode, permits end
    if refusal or isFree or #lock.holders < permits or lock.mode == 'r' and mode == 'r' and not firstListening(lock, 'w') then
      return granted(lock, request, enter(lock, request, math.max(request.leaseMs, request.minHoldMs), fence))
    end
  end
  if not request.queue then return { 3, now, endsOf(lock) - now + 1, holdsOf(lock, request) } end
  joinQueue(lock, request)
  return waiting(lock, request)
end
local function takeOver(lock, request)
  local holder, position = holderOf(lock, request.replaces)
  if not holder or request.takes ~= 't' and holder.fence > lock.floor then return nil end
  local heir = {}
  for field, value in pairs(holder) do heir[field] = value end
  heir.id, heir.ending = request.id, math.max(now + request.leaseMs, holder.minEnd)
  heir.longMs = math.max(holder.longMs, longMsOf(request.leaseMs))
  if request.takes == 't' then
    if math.min(request.minHoldMs, leaseEnd(holder)) < now then return nil end
    if lock.recoversForMs > 0 then return nil, lock.recoversForMs end
    holder.owner = '-'
    local shared = heir.owner ~= '-' and lock.mode ~= 'p' and fenceToShare(lock, heir.owner)
    heir.fence, heir.fences = shared or nextFence(lock.fenceKey, math.max(lock.floor, holder.fence + holder.fences - 1), 1), 1
    heir.label, heir.graceMs, heir.ending = request.label, request.graceMs, heir.ending + request.graceMs
  else
    heir.graceMs = heir.ending - now - request.leaseMs
  end
  lock.holders[request.takes == 'b' and #lock.holders + 1 or position] = heir
  lock.frees = true
  return heir
end
local function takeHold(lock, request)
  settle(lock)
  local holder, recoversForMs = holderOf(lock, request.id), nil
  if not holder then holder, recoversForMs = takeOver(lock, request) end
  if not holder and not recoversForMs and request.takes == 't' and takeAway(lock, request.id) then settle(lock) end
  closeLock(lock)
  if recoversForMs then return { 7, now, recoversForMs } end
  if not holder then return { 0, now, lock.memory } end
  local reply = granted(lock, request, holder)
  reply[1], reply[8] = 9, lock.memory
  reply[9], reply[10], reply[11] = lock.mode == 'p' and '-' or holder.owner, lock.permits, math.max(0, holder.minEnd - now)
  return reply
end
local function replaceLease(lock, request)
  local handsOn = request.takes == 'p' and lock.permits == permitsOf(request) and holderOf(lock, request.replaces) and not holderOf(lock, request.id)
  local there = takeAway(lock, request.replaces, request.replaces == request.id)
  if handsOn and #lock.holders < lock.permits and recoveryOf(lock) == 0 then
    takeOut(lock, request.id)
    enter(lock, request, math.max(request.leaseMs, request.minHoldMs))
  end
  return there
end
local function grantOrPlace(request)
  local lock = openLock(request)
  local recoversForMs = recoveryOf(lock)
  if request.takes ~= 'n' and request.takes ~= 'p' then return takeHold(lock, request) end
  local isReplaced = request.replaces == '-' or replaceLease(lock, request)
  if request.queue and (recoversForMs > 0 or holderOf(lock, '~' .. request.id)) then wasForgotten(lock, request.id) end
  lock.asking[request.id], lock.witness = true, request.id
  lock.standsIn = request.told ~= '-' and standIn(lock, request)
  settle(lock)
  local reply = answer(lock, request)
  if reply[1] <= 2 or request.replaces ~= '-' or recoversForMs > 0 or lock.standsIn or wasCut or #lock.messages > 0 then closeLock(lock) end
  if not isReplaced then reply[1] = reply[1] + 10 end
  return reply
end
local answerTo = grantOrPlace
local takes = string.sub(args[1], 5, 5)
if takes == 'f' then`, shared.openLine, shared.dropMark, shared.addMark, shared.goesFirst, shared.markWaiting, shared.keepTurn, shared.writeLine, shared.markOf, `local function refuse(lock, line, mark)
  if mark then addMark(line, mark) end
  if #lock.holders == 0 then
    keepTurn(lock, line)
  elseif mark and not lock.marked then
    lock.marked = true
    for _, holder in ipairs(lock.holders) do tellHolder(lock, holder, 'c') end
  end
  pcall(closeLock, lock)
  writeLine(line)
  return { 3, now, endsOf(lock) - now + 1, '-' }
end
local function vote(request)
  local id, mode, owner, proposal = request.id, request.mode, request.owner, request.floor
  request.floor = nil
  local lock = openLock(request)
  if recoveryOf(lock) > 0 then return { 7, now, lock.recoversForMs } end
  lock.floor, nowUs = proposal - 1, 0
  local own, kin = holderOf(lock, id), ownedBy(lock, owner)
  local shares = not own and kin
  if not own then
    local refusal = besideOwner(lock, request)
    if refusal and refusal > 0 then return { refusal, now } end
    local line, mark, waiter = openLine(lock), markOf(request), string.match(id, '^(.*)/') or id
    dropMark(line, waiter)
    if not kin then
      local fits = #lock.holders == 0 or lock.mode == 'r' and mode == 'r'
      if not (fits and goesFirst(line, waiter, mode, mark and mark.since or now)) then return refuse(lock, line, mark) end
      lock.mode = mode
    end
    own = enter(lock, request, math.max(request.leaseMs, request.minHoldMs), kin and kin.fence)
    markWaiting(lock, line)
    closeLock(lock)
    writeLine(line)
  end
  local reply = granted(lock, request, own)
  if shares then reply[4] = 0 end
  return reply
end
answerTo = vote
end
for _, n in ipairs(uncommon) do
  local request = requestOf(n)
  request.leaseMs = request.keepMs - 1000
  replies[n] = orRefused(pcall(answerTo, request))
end
return count == 1 and replies[1] or replies`].join('\n'),
};

/** The Redis keys of one request to acquire.lua. */
export interface AcquireKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters; a node of a Redlock has marks in their place. */
  readonly queueKey: string;
  /** The slot group's last fence. */
  readonly fenceKey: string;
}

/** What is said in one request to acquire.lua. */
export interface AcquireArgs {
  /** How it wants to hold the lock. */
  readonly mode: LockMode | 'permit';
  /** Whether it takes a place in the queue when the lock is busy. */
  readonly queue: boolean;
  /** Whether others go first while nobody listens on the channel of its process. */
  readonly needsListener: boolean;
  /** Whether it wants one fence, a lease of at most USUAL_LEASE_MS, owes no minHoldMs, has no grace, replaces nothing, and was told of no holder by an earlier memory. */
  readonly plain: boolean;
  /** What it gets from the id to replace: its permit, before those who wait; or all of its hold, as a ticket in its place or beside it; or that of a ticket; or nothing. Or the floor as its fence, in place of the clock: a vote on a node of a Redlock. */
  readonly takes: 'nothing' | 'permit' | 'hold' | 'beside' | 'ticket' | 'floor';
  /** Server time in ms after which nothing is done. */
  readonly notAfter: number;
  /** The highest fence that the caller has seen in the slot group; of a vote the least fence that it can use. */
  readonly floor: number;
  /** What the server told the caller as its memory on this connection, or as many dashes. */
  readonly known: string;
  /** How long the lease is; the key of a lock that is granted as asked is kept for LOCK_GRACE_MS longer. */
  readonly leaseMs: number;
  /** The id of who asks, new for each request. */
  readonly id: string;
  /** Whose requests share a lock; of a request for a permit how many there are. */
  readonly owner?: string | undefined;
  /** What an operator reads. */
  readonly label?: string | undefined;
  /** How many to reserve. */
  readonly fences: number;
  /** How long the lock stays taken at least; of who takes a ticket the last server time in ms at which that can be taken. */
  readonly minHoldMs: number;
  /** How long the lock stays taken after a lease that ended without a release. */
  readonly graceMs: number;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
  /** An id to release in the same step. */
  readonly replaces?: string | undefined;
  /** How many ms ago the caller was told who holds the lock, a comma, and what it was told (stand-in.lua). */
  readonly told?: string | undefined;
  /** What a vote leaves of its request if that is refused and waits (marks.lua). */
  readonly mark?: string | undefined;
}

/** What is said in one request to acquire.lua. */
export function acquireText(request: AcquireArgs): string {
  return [`${request.mode[0]}${request.queue ? 1 : 0}${request.needsListener ? 1 : 0}${request.plain ? 1 : 0}${request.takes[0]}`, String(request.notAfter).padStart(13, '0'), String(request.floor).padStart(16, '0'), request.known, request.leaseMs + LOCK_GRACE_MS, request.id, request.owner === undefined ? '-' : toField(request.owner), request.label === undefined ? '-' : toField(request.label), request.fences, request.minHoldMs, request.graceMs, request.recoveryMs, request.replaces ?? '-', request.told ?? '-', request.mark ?? '-'].join(' ');
}

/** Puts one more request into a call of acquire.lua. */
export function addAcquire(keys: ScriptArgument[], args: ScriptArgument[], on: AcquireKeys, request: AcquireArgs): void {
  keys.push(on.lockKey, on.queueKey, on.fenceKey);
  args.push(acquireText(request));
}

/** A call of acquire.lua for one request. */
export function acquireCall(on: AcquireKeys, request: AcquireArgs): BuiltCall {
  return acquireCallOf([{ ...on, ...request }]);
}

/** A call of acquire.lua for many requests. */
export function acquireCallOf(requests: readonly (AcquireKeys & AcquireArgs)[]): BuiltCall {
  const keys: string[] = [];
  const args: ScriptArgument[] = [];
  for (const each of requests) addAcquire(keys, args, each, each);
  return { script: acquire, keys, args };
}

/** What acquire.lua answers. */
export type AcquireReply =
  /** The id from which it takes the hold is not there. */
  | { readonly kind: 'gone'; readonly now: number; readonly memory: string }
  /** fences is 0 for a vote that shares the fence of its owner's hold; the end is that of the lease, without its grace; contended when others wait; memory where the caller did not know it. */
  | { readonly kind: 'granted'; readonly now: number; readonly fence: number; readonly fences: number; readonly mode: LockMode; readonly end: number; readonly contended: boolean; readonly memory: string | undefined }
  /** leftMs is the time until the present hold ends, or -1 when others come first; holds says who holds it, and for how long (stand-in.lua). */
  | { readonly kind: 'waiting'; readonly now: number; readonly leftMs: number; readonly holds: string }
  /** leftMs is the time until the present hold ends, or the turn for which a node keeps the lock. */
  | { readonly kind: 'busy'; readonly now: number; readonly leftMs: number; readonly holds: string }
  /** The owner reads. */
  | { readonly kind: 'upgrade'; readonly now: number }
  /** After notAfter. */
  | { readonly kind: 'late'; readonly now: number }
  /** The owner has as many holds of the lock as can be. */
  | { readonly kind: 'full'; readonly now: number }
  /** leftMs is the time until something new is granted, for the server may have forgotten who has the lock. */
  | { readonly kind: 'recovering'; readonly now: number; readonly leftMs: number }
  /** Those who hold or wait name so many permits, or 0 for none, and this request does not. */
  | { readonly kind: 'permits'; readonly now: number; readonly permits: number }
  /** As granted, and what was taken with the hold; permits that the lock has, or 0; minHoldMs is what is left of it. */
  | { readonly kind: 'taken'; readonly now: number; readonly fence: number; readonly fences: number; readonly mode: LockMode; readonly end: number; readonly contended: boolean; readonly memory: string; readonly owner: string | undefined; readonly permits: number; readonly minHoldMs: number };

/** Reads an answer of acquire.lua, which begins with its code. @throws Error */
export function readAcquire(reply: unknown): AcquireReply {
  const list = listOf(reply);
  switch (list[0]) {
    case 0:
      return { kind: 'gone', now: Number(list[1]), memory: String(list[2]) };
    case 1:
      return { kind: 'granted', now: Number(list[1]), fence: Number(list[2]), fences: Number(list[3]), mode: Number(list[4]) === 1 ? 'write' : 'read', end: Number(list[5]), contended: Number(list[6]) === 1, memory: list[7] === undefined ? undefined : String(list[7]) };
    case 2:
      return { kind: 'waiting', now: Number(list[1]), leftMs: Number(list[2]), holds: String(list[3]) };
    case 3:
      return { kind: 'busy', now: Number(list[1]), leftMs: Number(list[2]), holds: String(list[3]) };
    case 4:
      return { kind: 'upgrade', now: Number(list[1]) };
    case 5:
      return { kind: 'late', now: Number(list[1]) };
    case 6:
      return { kind: 'full', now: Number(list[1]) };
    case 7:
      return { kind: 'recovering', now: Number(list[1]), leftMs: Number(list[2]) };
    case 8:
      return { kind: 'permits', now: Number(list[1]), permits: Number(list[2]) };
    case 9:
      return { kind: 'taken', now: Number(list[1]), fence: Number(list[2]), fences: Number(list[3]), mode: Number(list[4]) === 1 ? 'write' : 'read', end: Number(list[5]), contended: Number(list[6]) === 1, memory: String(list[7]), owner: fromField(list[8]), permits: Number(list[9]), minHoldMs: Number(list[10]) };
    default:
      throw new UnexpectedReplyError(list);
  }
}

export const admit: LuaScript = {
  name: 'admit',
  sha1: '9097ad22d65f5df8617e3d0215a15f4f48eda728',
  source: [`local fenceKeys = KEYS
local maxLeaseMs, since, floors = tonumber(ARGV[1]), tonumber(ARGV[2]), { unpack(ARGV, 3) }`, shared.time, shared.nowUs, shared.now, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, `local refused = false
for n, fenceKey in ipairs(fenceKeys) do
  local memory, closedForMs = readMemory(fenceKey, '-', tonumber(floors[n] or 0), 1000000000000)
  local began = tonumber(string.sub(memory, 18))
  refused = refused or closedForMs > 0 and (began > since or now <= began + maxLeaseMs)
end
if refused then return 0 end
for _, fenceKey in ipairs(fenceKeys) do
  local last, memory = string.match(redis.call('GET', fenceKey), '^(%d+) (%S+)')
  redis.call('SET', fenceKey, (last == '0' and '1' or last) .. ' ' .. memory)
end
return 1`].join('\n'),
};

/** The Redis keys of a call of admit.lua. */
export interface AdmitKeys {
  /** The last fences of slot groups. */
  readonly fenceKeys: readonly string[];
}

/** What is said in a call of admit.lua. */
export interface AdmitArgs {
  /** The longest lease. */
  readonly maxLeaseMs: number;
  /** From when its memory counts, as recall.lua told it. */
  readonly since: number;
  /** For each of the first groups the fence to be above. */
  readonly floors: readonly number[];
}

export function admitCall(on: AdmitKeys, request: AdmitArgs): BuiltCall {
  return { script: admit, keys: [...on.fenceKeys], args: [request.maxLeaseMs, request.since, ...request.floors] };
}

/** Reads the answer of admit.lua, which is a code alone. @throws Error, also with the server's words for what it refused */
export function readAdmit(code: unknown): 'admitted' | 'refused' {
  switch (code) {
    case 1:
      return 'admitted';
    case 0:
      return 'refused';
    default:
      throw new UnexpectedReplyError(listOf(code));
  }
}

export const agree: LuaScript = {
  name: 'agree',
  sha1: 'cb0b35a4d3ce8c765b2cecdf7bba401043e48bb9',
  source: [`local formatKey = KEYS[1]
local oldest, newest, groups, maxLeaseMs = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local text = redis.call('GET', formatKey)
local version, theirGroups, longest = newest, groups, maxLeaseMs
if text then
  version, theirGroups, longest = string.match(text, '^version=(%d+) groups=(%d+) maxLeaseMs=(%d+)$')
  version = tonumber(version)
  if not version or version < oldest or version > newest or tonumber(theirGroups) ~= groups then return { 0, text } end
  longest = math.max(tonumber(longest), maxLeaseMs)
end
local agreed = string.format('version=%.0f groups=%.0f maxLeaseMs=%.0f', version, groups, longest)
if agreed ~= text then redis.call('SET', formatKey, agreed) end
return { 1, version, longest }`].join('\n'),
};

/** The Redis keys of a call of agree.lua. */
export interface AgreeKeys {
  /** Version=<version> groups=<groups> maxLeaseMs=<longest>. */
  readonly formatKey: string;
}

/** What is said in a call of agree.lua. */
export interface AgreeArgs {
  /** The oldest version that this process can read and write. */
  readonly oldest: number;
  /** The newest. */
  readonly newest: number;
  /** The number of slot groups. */
  readonly groups: number;
  /** The longest lease of this process. */
  readonly maxLeaseMs: number;
}

export function agreeCall(on: AgreeKeys, request: AgreeArgs): BuiltCall {
  return { script: agree, keys: [on.formatKey], args: [request.oldest, request.newest, request.groups, request.maxLeaseMs] };
}

/** What agree.lua answers. */
export type AgreeReply =
  /** The version that all write, and the longest lease of all. */
  | { readonly kind: 'agreed'; readonly version: number; readonly longestMs: number }
  /** Theirs, which this process does not understand. */
  | { readonly kind: 'other'; readonly format: string };

/** Reads an answer of agree.lua, which begins with its code. @throws Error */
export function readAgree(reply: unknown): AgreeReply {
  const list = listOf(reply);
  switch (list[0]) {
    case 1:
      return { kind: 'agreed', version: Number(list[1]), longestMs: Number(list[2]) };
    case 0:
      return { kind: 'other', format: String(list[1]) };
    default:
      throw new UnexpectedReplyError(list);
  }
}

export const bringBack: LuaScript = {
  name: 'bring-back',
  sha1: '914f3c5325af3af4319ac2e2effbb4e2bcc835ea',
  source: [`local keys = KEYS
local args, count = ARGV, #ARGV / 3`, shared.time, shared.nowUs, shared.now, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, shared.recoveryOf, shared.nextFence, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.holderOf, shared.isReleased, shared.removeHolder, shared.permitsOf, shared.ownedBy, shared.beganAt, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.enter, shared.addNobody, shared.writeLock, shared.tellId, shared.tellHolder, shared.channelOf, shared.tell, shared.closeLock, shared.openQueue, shared.takeOut, shared.isAlive, shared.readWaiter, shared.isFromBefore, shared.liveFrom, shared.firstWaiter, shared.hearsOfItsTurn, shared.passOver, shared.firstListening, shared.letIn, shared.admit, shared.admitNext, shared.settle, shared.heardKey, shared.heardOf, shared.isStandIn, shared.dropStandIns, shared.throwIfReplica, shared.orRefused, `local function requestOf(n)
  local mode, notAfter, leaseMs, fence, fences, minHoldMs, graceMs, recoveryMs, knownBy, ticketId = string.match(args[3 * n - 1], '^(.) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  local owner, label = string.match(args[3 * n], '^(%S+) (%S+)$')
  return { lockKey = keys[3 * n - 2], queueKey = keys[3 * n - 1], fenceKey = keys[3 * n], id = args[3 * n - 2], mode = mode, notAfter = tonumber(notAfter), leaseMs = tonumber(leaseMs), fence = tonumber(fence), fences = tonumber(fences), minHoldMs = tonumber(minHoldMs), graceMs = tonumber(graceMs), recoveryMs = tonumber(recoveryMs), knownBy = knownBy, ticketId = ticketId, owner = owner, label = label }
end
local function fitsBeside(lock, lease)
  if #lock.holders == 0 then return true end
  if permitsOf(lease) ~= lock.permits then return false end
  if lock.mode == 'p' then return #lock.holders < lock.permits or lock.recoversForMs > 0 end
  if lock.mode == 'r' then return lease.mode == 'r' end
  local kin = ownedBy(lock, lease.owner)
  if kin then return kin.fence == lease.fence or lock.recoversForMs <= 0 end
  for _, holder in ipairs(lock.holders) do
    if not isStandIn(holder) or holder.fence ~= lease.fence then return false end
  end
  return lease.owner ~= '-'
end
local function displaceStandIns(lock, lease)
  local first
  for _, holder in ipairs(lock.holders) do
    if isStandIn(holder) and (not first or holder.ending < first.ending) then first = holder end
  end
  if first and lock.mode == 'p' and permitsOf(lease) == lock.permits then
    dropStandIns(lock, string.sub(first.id, 2))
  else
    dropStandIns(lock)
  end
end
local function makeRoom(lock, lease)
  for _, holder in ipairs(lock.holders) do
    if whole(holder).fence + holder.fences > lease.fence then return false end
  end
  for _, holder in ipairs(lock.holders) do tellHolder(lock, holder, 'l') end
  lock.holders = {}
  return true
end
local function wasHandedOff(lock, lease)
  for _, holder in ipairs(lock.holders) do
    if lock.mode == 'p' and whole(holder).fence == lease.fence and not isStandIn(holder) then return true end
  end
end
local function enterAgain(lock, lease)
  dropStandIns(lock, string.sub('~recovery', 2))
  if not fitsBeside(lock, lease) or lock.mode == 'p' and #lock.holders >= lock.permits then displaceStandIns(lock, lease) end
  if not fitsBeside(lock, lease) and not (lock.recoversForMs > 0 and makeRoom(lock, lease)) then return nil end
  if #lock.holders == 0 then lock.mode, lock.permits = lease.mode, permitsOf(lease) end
  local holder = enter(lock, lease, math.max(lease.leaseMs, lease.minHoldMs), lease.fence)
  holder.fences = lease.fences
  return holder
end
local function bringBack(lease)
  if now > lease.notAfter then return { 2 } end
  lease.floor = lease.fence + lease.fences - 1
  local lock = openLock(lease)
  local recoversForMs = recoveryOf(lock)
  local holder = holderOf(lock, lease.id)
  if lock.memory ~= lease.knownBy then heardOf(lock, lease.id) end
  if holder then
    holder.longMs = math.max(holder.longMs, longMsOf(lease.leaseMs))
    holder.ending = math.max(holder.ending, now + lease.leaseMs + holder.graceMs, holder.minEnd + holder.graceMs)
    holder.fence = lease.fence
    if recoversForMs > 0 and lease.mode == 'r' and #lock.holders == 1 then lock.mode = 'r' end
  else
    settle(lock)
    if lock.memory ~= lease.knownBy and not wasHandedOff(lock, lease) then
      removeHolder(lock, lease.ticketId, true)
      local stoodIn = dropStandIns(lock, lease.id)
      holder = enterAgain(lock, lease)
      if stoodIn and not holder then settle(lock) end
    end
  end
  if holder and lease.owner ~= '-' and lock.mode ~= 'p' then holder.heardOf = now end
  closeLock(lock)
  if not holder then return { 0 } end
  return { 1, leaseEnd(holder) - now, lock.queued and 1 or 0, lock.memory }
end
local answers = {}
for n = 1, count do answers[n] = orRefused(pcall(bringBack, requestOf(n))) end
return { now, answers }`].join('\n'),
};

/** The Redis keys of one request to bring-back.lua. */
export interface BringBackKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters. */
  readonly queueKey: string;
  /** The slot group's last fence. */
  readonly fenceKey: string;
}

/** What is said in one request to bring-back.lua. */
export interface BringBackArgs {
  /** The id of the holder. */
  readonly id: string;
  /** How it holds the lock. */
  readonly mode: LockMode | 'permit';
  /** Server time in ms after which its holder does not trust it. */
  readonly notAfter: number;
  /** How long it lasts from now. */
  readonly leaseMs: number;
  /** The first of its fences. */
  readonly fence: number;
  /** How many it has. */
  readonly fences: number;
  /** How long the lock stays taken at least. */
  readonly minHoldMs: number;
  /** How long the lock stays taken after a lease that ended without a release. */
  readonly graceMs: number;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
  /** The memory of the server that knew the lease last. */
  readonly knownBy?: string | undefined;
  /** The ticket of which the lease was made. */
  readonly ticketId?: string | undefined;
  /** Whose requests share a lock; of a hold with a permit how many there are. */
  readonly owner?: string | undefined;
  /** What an operator reads. */
  readonly label?: string | undefined;
}

/** Puts one more request into a call of bring-back.lua. */
export function addBringBack(keys: ScriptArgument[], args: ScriptArgument[], on: BringBackKeys, request: BringBackArgs): void {
  keys.push(on.lockKey, on.queueKey, on.fenceKey);
  args.push(request.id, [request.mode[0], request.notAfter, request.leaseMs, request.fence, request.fences, request.minHoldMs, request.graceMs, request.recoveryMs, request.knownBy ?? '-', request.ticketId ?? '-'].join(' '), [request.owner === undefined ? '-' : toField(request.owner), request.label === undefined ? '-' : toField(request.label)].join(' '));
}

/** A call of bring-back.lua for one request. */
export function bringBackCall(on: BringBackKeys, request: BringBackArgs): BuiltCall {
  return bringBackCallOf([{ ...on, ...request }]);
}

/** A call of bring-back.lua for many requests. */
export function bringBackCallOf(requests: readonly (BringBackKeys & BringBackArgs)[]): BuiltCall {
  const keys: string[] = [];
  const args: ScriptArgument[] = [];
  for (const each of requests) addBringBack(keys, args, each, each);
  return { script: bringBack, keys, args };
}

/** What bring-back.lua answers. */
export type BringBackAnswer =
  | { readonly kind: 'lost' }
  /** leftMs is the time until it ends, without its grace; contended when others wait; memory is the one that knows it now. */
  | { readonly kind: 'held'; readonly leftMs: number; readonly contended: boolean; readonly memory: string }
  /** After notAfter: nothing was done. */
  | { readonly kind: 'late' }
  /** What the server said to this lease's keys. */
  | { readonly kind: 'refused'; readonly words: string };

/** Reads an answer of bring-back.lua, which begins with its code. @throws Error */
export function readBringBackAnswer(list: ReplyItems): BringBackAnswer {
  switch (list[0]) {
    case 0:
      return { kind: 'lost' };
    case 1:
      return { kind: 'held', leftMs: Number(list[1]), contended: Number(list[2]) === 1, memory: String(list[3]) };
    case 2:
      return { kind: 'late' };
    case 'refused':
      return { kind: 'refused', words: String(list[1]) };
    default:
      throw new UnexpectedReplyError(list);
  }
}

/** The server's time in ms. */
export interface BringBackReply {
  readonly now: number;
  readonly answers: readonly BringBackAnswer[];
}

/** Reads the reply of bring-back.lua. @throws Error */
export function readBringBack(reply: unknown): BringBackReply {
  const list = listOf(reply);
  return { now: Number(list[0]), answers: eachOf(list[1], readBringBackAnswer) };
}

export const downgrade: LuaScript = {
  name: 'downgrade',
  sha1: 'e9f6bf271098d8ac181b49fa17553d08a8034131',
  source: [`local lockKey, queueKey, fenceKey = KEYS[1], KEYS[2], KEYS[3]
local id, floor, recoveryMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])`, shared.time, shared.nowUs, shared.now, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, shared.recoveryOf, shared.nextFence, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.holderOf, shared.beganAt, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.enter, shared.addNobody, shared.writeLock, shared.channelOf, shared.tell, shared.closeLock, shared.openQueue, shared.takeOut, shared.isAlive, shared.readWaiter, shared.isFromBefore, shared.liveFrom, shared.firstWaiter, shared.hearsOfItsTurn, shared.passOver, shared.firstListening, shared.letIn, shared.admit, shared.admitNext, shared.settle, `local request = { lockKey = lockKey, queueKey = queueKey, fenceKey = fenceKey, id = id, floor = floor, recoveryMs = recoveryMs }
local lock = openLock(request)
settle(lock)
local holder = holderOf(lock, id)
if holder and lock.mode == 'w' and #lock.holders == 1 then
  lock.mode = 'r'
  if lock.queued and recoveryOf(lock) == 0 then admit(lock, 'r') end
end
closeLock(lock)
return holder and 1 or 0`].join('\n'),
};

/** The Redis keys of a call of downgrade.lua. */
export interface DowngradeKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters. */
  readonly queueKey: string;
  /** The slot group's last fence. */
  readonly fenceKey: string;
}

/** What is said in a call of downgrade.lua. */
export interface DowngradeArgs {
  /** The id of the holder. */
  readonly id: string;
  /** The highest fence that the caller has seen in the slot group. */
  readonly floor: number;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
}

export function downgradeCall(on: DowngradeKeys, request: DowngradeArgs): BuiltCall {
  return { script: downgrade, keys: [on.lockKey, on.queueKey, on.fenceKey], args: [request.id, request.floor, request.recoveryMs] };
}

/** Reads the answer of downgrade.lua, which is a code alone. @throws Error, also with the server's words for what it refused */
export function readDowngrade(code: unknown): 'downgraded' | 'lost' {
  switch (code) {
    case 1:
      return 'downgraded';
    case 0:
      return 'lost';
    default:
      throw new UnexpectedReplyError(listOf(code));
  }
}

export const fencedWrite: LuaScript = {
  name: 'fenced-write',
  sha1: '616af4e33f3a2b0b301859de4f706380908acbc5',
  source: [`local dataKey = KEYS[1]
local fence, fields = ARGV[1], { unpack(ARGV, 2) }
local highest = redis.call('HGET', dataKey, 'fence')
if highest and tonumber(fence) < tonumber(highest) then return 0 end
redis.call('HSET', dataKey, 'fence', fence, unpack(fields))
return 1`].join('\n'),
};

/** The Redis keys of a call of fenced-write.lua. */
export interface FencedWriteKeys {
  /** The hash; its field `fence` keeps the highest fence that wrote. */
  readonly dataKey: string;
}

/** What is said in a call of fenced-write.lua. */
export interface FencedWriteArgs {
  /** The fence of the hold. */
  readonly fence: number;
  /** A name and a value for each field. */
  readonly fields: readonly ScriptArgument[];
}

export function fencedWriteCall(on: FencedWriteKeys, request: FencedWriteArgs): BuiltCall {
  return { script: fencedWrite, keys: [on.dataKey], args: [request.fence, ...request.fields] };
}

/** Reads the answer of fenced-write.lua, which is a code alone. @throws Error, also with the server's words for what it refused */
export function readFencedWrite(code: unknown): 'written' | 'stale' {
  switch (code) {
    case 1:
      return 'written';
    case 0:
      return 'stale';
    default:
      throw new UnexpectedReplyError(listOf(code));
  }
}

export const forceRelease: LuaScript = {
  name: 'force-release',
  sha1: '3e17c02fb28b22069333fc3f2c6da22d51cadc09',
  source: [`local lockKey, queueKey, fenceKey = KEYS[1], KEYS[2], KEYS[3]
local fence, notAfter, floor, recoveryMs = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])`, shared.time, shared.nowUs, shared.now, `if now > notAfter then return { 2, now } end`, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, shared.recoveryOf, shared.nextFence, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.holderOf, shared.isReleased, shared.beganAt, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.enter, shared.addNobody, shared.writeLock, shared.tellId, shared.tellHolder, shared.channelOf, shared.tell, shared.closeLock, shared.openQueue, shared.takeOut, shared.isAlive, shared.readWaiter, shared.isFromBefore, shared.liveFrom, shared.firstWaiter, shared.hearsOfItsTurn, shared.passOver, shared.firstListening, shared.letIn, shared.admit, shared.admitNext, shared.settle, shared.heardKey, shared.heardOf, shared.isStandIn, `local request = { lockKey = lockKey, queueKey = queueKey, fenceKey = fenceKey, fence = fence, notAfter = notAfter, floor = floor, recoveryMs = recoveryMs }
local lock = openLock(request)
settle(lock)
local kept, taken = {}, 0
for _, holder in ipairs(lock.holders) do
  local last = whole(holder).fence + (lock.mode == 'p' and 0 or holder.fences - 1)
  if holder.fence == 0 or fence and (fence < holder.fence or fence > last) then
    kept[#kept + 1] = holder
  else
    taken = 1
    if isStandIn(holder) and recoveryOf(lock) >= 0 then heardOf(lock, string.sub(holder.id, 2)) end
    tellHolder(lock, holder, 'l')
  end
end
lock.holders, lock.frees = kept, true
settle(lock)
closeLock(lock)
return { taken, now }`].join('\n'),
};

/** The Redis keys of a call of force-release.lua. */
export interface ForceReleaseKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters. */
  readonly queueKey: string;
  /** The slot group's last fence. */
  readonly fenceKey: string;
}

/** What is said in a call of force-release.lua. */
export interface ForceReleaseArgs {
  /** The fence of the holder to take it from, any of those reserved for it, of one with a permit the first; or nothing for all holders. */
  readonly fence?: number | undefined;
  /** Server time in ms after which nothing is done. */
  readonly notAfter: number;
  /** The highest fence that the caller has seen in the slot group. */
  readonly floor: number;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
}

export function forceReleaseCall(on: ForceReleaseKeys, request: ForceReleaseArgs): BuiltCall {
  return { script: forceRelease, keys: [on.lockKey, on.queueKey, on.fenceKey], args: [request.fence ?? '', request.notAfter, request.floor, request.recoveryMs] };
}

/** What force-release.lua answers. */
export type ForceReleaseReply =
  | { readonly kind: 'taken'; readonly now: number }
  /** There is no such holder. */
  | { readonly kind: 'none'; readonly now: number }
  /** After notAfter: nothing was done. */
  | { readonly kind: 'late'; readonly now: number };

/** Reads an answer of force-release.lua, which begins with its code. @throws Error */
export function readForceRelease(reply: unknown): ForceReleaseReply {
  const list = listOf(reply);
  switch (list[0]) {
    case 1:
      return { kind: 'taken', now: Number(list[1]) };
    case 0:
      return { kind: 'none', now: Number(list[1]) };
    case 2:
      return { kind: 'late', now: Number(list[1]) };
    default:
      throw new UnexpectedReplyError(list);
  }
}

export const inspect: LuaScript = {
  name: 'inspect',
  sha1: '39a169e4da291114389a094d4a049ff94d46b11c',
  source: [`local lockKey, queueKey = KEYS[1], KEYS[2]`, shared.time, shared.nowUs, shared.now, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, `local lock = openLock({ lockKey = lockKey })
local holders, waiters = {}, {}
for _, holder in ipairs(lock.holders) do
  if whole(holder).fences > 0 then
    holders[#holders + 1] = { (string.gsub(holder.id, '^~', '')), holder.fence, holder.owner, holder.ending - now, holder.label, holder.graceMs }
  end
end
local fields, queue = lock.queued and redis.call('HGETALL', queueKey) or {}, {}
for i = 1, #fields, 2 do queue[fields[i]] = fields[i + 1] end
for _, mode in ipairs({ 'r', 'w' }) do
  local id = queue[mode .. 'h']
  while id and queue['@' .. id] do
    local record = queue['@' .. id]
    if tonumber(string.sub(record, 1, 13)) >= now then waiters[#waiters + 1] = { id, mode, string.match(record, '(%S+)$') } end
    id = queue['>' .. id]
  end
end
return { lock.mode, holders, waiters }`].join('\n'),
};

/** The Redis keys of a call of inspect.lua. */
export interface InspectKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters. */
  readonly queueKey: string;
}

export function inspectCall(on: InspectKeys): BuiltCall {
  return { script: inspect, keys: [on.lockKey, on.queueKey], args: [] };
}

/** leftMs until the lease and the grace after it have ended. */
export interface InspectHolder {
  readonly id: string;
  readonly fence: number;
  readonly owner: string | undefined;
  readonly leftMs: number;
  readonly label: string | undefined;
  readonly graceMs: number;
}

function readInspectHolder(list: ReplyItems): InspectHolder {
  return { id: String(list[0]), fence: Number(list[1]), owner: fromField(list[2]), leftMs: Number(list[3]), label: fromField(list[4]), graceMs: Number(list[5]) };
}

/** First all readers, then all writers, each in the order they came. */
export interface InspectWaiter {
  readonly id: string;
  readonly mode: LockMode;
  readonly label: string | undefined;
}

function readInspectWaiter(list: ReplyItems): InspectWaiter {
  return { id: String(list[0]), mode: list[1] === 'w' ? 'write' : 'read', label: fromField(list[2]) };
}

/** The phase is w, r, p (permits), or nothing for a free lock. */
export interface InspectReply {
  readonly phase: string;
  readonly holders: readonly InspectHolder[];
  readonly waiters: readonly InspectWaiter[];
}

/** Reads the reply of inspect.lua. @throws Error */
export function readInspect(reply: unknown): InspectReply {
  const list = listOf(reply);
  return { phase: String(list[0]), holders: eachOf(list[1], readInspectHolder), waiters: eachOf(list[2], readInspectWaiter) };
}

export const recall: LuaScript = {
  name: 'recall',
  sha1: '41da0b53055633547942d48b1a26d4595818851d',
  source: [`local keys = KEYS
local process, recoveryMs, args, count = ARGV[1], tonumber(ARGV[2]), ARGV, (#ARGV - 2) / 2`, shared.time, shared.nowUs, shared.now, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, `local function requestOf(n)
  return { fenceKey = keys[n], floor = tonumber(args[2 * n + 1]), holds = args[2 * n + 2] == '1' }
end
local recoversForMs, groups = 0, {}
for n = 1, count do
  local group = requestOf(n)
  local claim = { process = process, holds = group.holds }
  local memory, forMs, _, last = readMemory(group.fenceKey, '-', group.floor, recoveryMs, claim)
  recoversForMs, groups[n] = math.max(recoversForMs, forMs), { memory, string.format('%.0f', last) }
end
return { now, recoversForMs, groups }`].join('\n'),
};

/** The Redis keys of a call of recall.lua. */
export interface RecallKeys {
  /** One for each slot group. */
  readonly keys: readonly { readonly fenceKey: string }[];
}

/** What is said in a call of recall.lua. */
export interface RecallArgs {
  /** The process of the caller. */
  readonly process: string;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
  /** One for each slot group. */
  readonly groups: readonly { readonly floor: number; readonly holds: boolean }[];
}

export function recallCall(on: RecallKeys, request: RecallArgs): BuiltCall {
  return { script: recall, keys: [...on.keys.flatMap((each) => [each.fenceKey])], args: [request.process, request.recoveryMs, ...request.groups.flatMap((each) => [each.floor, each.holds ? 1 : 0])] };
}

/** The name of its memory; its last fence, 0 for none. */
export interface RecallGroup {
  readonly memory: string;
  readonly fence: number;
}

function readRecallGroup(list: ReplyItems): RecallGroup {
  return { memory: String(list[0]), fence: Number(list[1]) };
}

/** recoversForMs is how long nothing new is granted in the group that waits longest. */
export interface RecallReply {
  readonly now: number;
  readonly recoversForMs: number;
  readonly groups: readonly RecallGroup[];
}

/** Reads the reply of recall.lua. @throws Error */
export function readRecall(reply: unknown): RecallReply {
  const list = listOf(reply);
  return { now: Number(list[0]), recoversForMs: Number(list[1]), groups: eachOf(list[2], readRecallGroup) };
}

export const release: LuaScript = {
  name: 'release',
  sha1: 'c58044e863c64d331035d945fd23c87d9b179b03',
  source: [`local keys = KEYS
local args, count = ARGV, #ARGV
local replies, uncommon = {}, nil
for n = 1, count do
  local lockKey, mayBeOver = keys[3 * n - 2], string.sub(args[n], 1, 1)
  local id = string.match(args[n], '^(%S+)', 4)
  local text = mayBeOver == '0' and redis.pcall('GET', lockKey)
  if text and #text > 0 and string.sub(text, 2, 4) == '00 ' and string.sub(text, 19, 19 + #id) == id .. ' ' then
    redis.call('DEL', lockKey)
    replies[n] = 1
  else
    uncommon = uncommon or {}
    uncommon[#uncommon + 1] = n
  end
end
if not uncommon then return count == 1 and replies[1] or replies end`, shared.time, shared.nowUs, shared.now, shared.server, shared.thisNode, shared.sincePromotion, shared.thisServer, shared.isOfThisNode, shared.forgot, shared.writeFence, shared.withClaim, shared.beginRecovery, shared.readMemory, shared.recoveryOf, shared.nextFence, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.holderOf, shared.isReleased, shared.removeHolder, shared.beganAt, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.enter, shared.addNobody, shared.writeLock, shared.tellId, shared.channelOf, shared.tell, shared.closeLock, shared.openQueue, shared.takeOut, shared.isAlive, shared.readWaiter, shared.isFromBefore, shared.liveFrom, shared.firstWaiter, shared.hearsOfItsTurn, shared.passOver, shared.firstListening, shared.letIn, shared.admit, shared.admitNext, shared.settle, shared.nextInLine, shared.endsWithoutHolder, shared.leave, shared.openLine, shared.dropMark, shared.addMark, shared.keepTurn, shared.writeLine, shared.markOf, shared.passOn, shared.heardKey, shared.heardOf, shared.isStandIn, shared.dropStandIns, shared.wasForgotten, shared.takeAway, shared.throwIfReplica, shared.orRefused, `local function requestOf(n)
  local mayBeOver, abandoned, id, floor, recoveryMs, known, mark = string.match(args[n], '^(.)(.) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return { lockKey = keys[3 * n - 2], queueKey = keys[3 * n - 1], fenceKey = keys[3 * n], mayBeOver = mayBeOver == '1', abandoned = abandoned == '1', id = id, floor = tonumber(floor), recoveryMs = tonumber(recoveryMs), known = known, mark = mark }
end
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
return count == 1 and replies[1] or replies`].join('\n'),
};

/** The Redis keys of one request to release.lua. */
export interface ReleaseKeys {
  /** The lock. */
  readonly lockKey: string;
  /** Its waiters. */
  readonly queueKey: string;
  /** The slot group's last fence. */
  readonly fenceKey: string;
}

/** What is said in one request to release.lua. */
export interface ReleaseArgs {
  /** Whether its lease may have ended before, by the clock of the caller, or is one of an earlier memory; of who leaves a mark as well. */
  readonly mayBeOver: boolean;
  /** Whether its work never began, so that it owes no minHoldMs. */
  readonly abandoned: boolean;
  /** The id of the holder or waiter. */
  readonly id: string;
  /** The highest fence that the caller has seen in the slot group. */
  readonly floor: number;
  /** How long nothing new is granted after the server forgot. */
  readonly recoveryMs: number;
  /** What the server told the caller as its memory, or as many dashes. */
  readonly known: string;
  /** The mark of a Redlock: the mark of a request of the same process that waits from now on (marks.lua). */
  readonly mark?: string | undefined;
}

/** What is said in one request to release.lua. */
export function releaseText(request: ReleaseArgs): string {
  return [`${request.mayBeOver ? 1 : 0}${request.abandoned ? 1 : 0}`, request.id, request.floor, request.recoveryMs, request.known, request.mark ?? '-'].join(' ');
}

/** Puts one more request into a call of release.lua. */
export function addRelease(keys: ScriptArgument[], args: ScriptArgument[], on: ReleaseKeys, request: ReleaseArgs): void {
  keys.push(on.lockKey, on.queueKey, on.fenceKey);
  args.push(releaseText(request));
}

/** A call of release.lua for one request. */
export function releaseCall(on: ReleaseKeys, request: ReleaseArgs): BuiltCall {
  return releaseCallOf([{ ...on, ...request }]);
}

/** A call of release.lua for many requests. */
export function releaseCallOf(requests: readonly (ReleaseKeys & ReleaseArgs)[]): BuiltCall {
  const keys: string[] = [];
  const args: ScriptArgument[] = [];
  for (const each of requests) addRelease(keys, args, each, each);
  return { script: release, keys, args };
}

/** Reads the answer of release.lua, which is a code alone. @throws Error, also with the server's words for what it refused */
export function readRelease(code: unknown): 'released' | 'lost' {
  switch (code) {
    case 1:
      return 'released';
    case 0:
      return 'lost';
    default:
      throw new UnexpectedReplyError(listOf(code));
  }
}

export const renew: LuaScript = {
  name: 'renew',
  sha1: '082574c93f9855ae8c1907a2151b1dbe45cb22ca',
  source: [`local lockKeys = KEYS
local args, count = ARGV, #ARGV / 2`, shared.time, shared.nowUs, shared.now, `local written = false
local function write(lockKey, text, keepMs)
  if not written then redis.call('PEXPIRE', lockKey, keepMs) end
  redis.call('SET', lockKey, text, 'PX', keepMs)
  written = true
end
local uncommon, locks = {}, {}
local news, position = {}, 0
local nowText = string.format('%013.0f', now)
for run = 1, count do
  local leaseMs, ids = args[2 * run - 1], args[2 * run]
  local lengthMs = tonumber(leaseMs)
  local newEnd, keepMs = string.format('%013.0f', now + lengthMs), string.format('%.0f', lengthMs + 1000)
  for id in string.gmatch(ids, '%S+') do
    position = position + 1
    local lockKey = lockKeys[position]
    local known = uncommon[lockKey]
    local text = not known and redis.pcall('GET', lockKey)
    local head, oldEnd, holder, rest
    if text and #text > 0 then head, oldEnd, holder, rest = string.match(text, '^(.00 )(%d+) (%S+)(.*)') end
    if holder == id and lengthMs <= 60000 and oldEnd >= nowText and oldEnd <= newEnd then
      write(lockKey, head .. newEnd .. ' ' .. id .. rest, keepMs)
    elseif known then
      known[#known + 1] = { position = position, id = id, lengthMs = lengthMs }
    else
      uncommon[lockKey] = { { position = position, id = id, lengthMs = lengthMs } }
      locks[#locks + 1] = lockKey
    end
  end
end
if #locks == 0 then return { now, news } end`, shared.wasCut, shared.whole, shared.holdersIn, shared.openLock, shared.longMsOf, shared.lineOf, shared.formatLock, shared.leaseEnd, shared.endsOf, shared.keepMsOf, shared.channelOf, shared.tell, shared.throwIfReplica, `local function tell(at, left, queued)
  news[#news + 1] = { at, left, queued and 1 or 0 }
end
local function renew(lockKey, leases)
  local lock = openLock({ lockKey = lockKey })
  local holders, found = {}, false
  for _, holder in ipairs(lock.holders) do holders[holder.id] = holder end
  for _, lease in ipairs(leases) do
    local holder = holders[lease.id]
    if holder then
      holder.ending, found = math.max(whole(holder).ending, now + lease.lengthMs, holder.minEnd + holder.graceMs), true
      holder.longMs = math.max(holder.longMs, longMsOf(lease.lengthMs))
    end
  end
  if found then write(lockKey, formatLock(lock), keepMsOf(lock, lock.queued and 2500)) end
  for _, lease in ipairs(leases) do
    local holder = holders[lease.id]
    tell(lease.position, holder and holder.ending - now or -1, holder and (lock.queued or lock.marked))
  end
end
for _, lockKey in ipairs(locks) do
  local done, words = pcall(renew, lockKey, uncommon[lockKey])
  if not done then
    throwIfReplica(words)
    for _, lease in ipairs(uncommon[lockKey]) do tell(lease.position, words) end
  end
end
return { now, news }`].join('\n'),
};

/** The Redis keys of a call of renew.lua. */
export interface RenewKeys {
  /** The lock of each lease. */
  readonly lockKeys: readonly string[];
}

/** What is said in a call of renew.lua. */
export interface RenewArgs {
  /** One for each run of leases that get the same length. */
  readonly runs: readonly { readonly leaseMs: number; readonly ids: string }[];
}

export function renewCall(on: RenewKeys, request: RenewArgs): BuiltCall {
  return { script: renew, keys: [...on.lockKeys], args: [...request.runs.flatMap((each) => [each.leaseMs, each.ids])] };
}

/** What there is to say of a lease, unless it was renewed to its length and nobody waits: left is the ms until it and its grace end, -1 for lost, or the server's words where it refused the key; contended when others wait. */
export interface RenewLease {
  readonly position: number;
  readonly left: number | string;
  readonly contended: boolean;
}

function readRenewLease(list: ReplyItems): RenewLease {
  return { position: Number(list[0]), left: list[1] ?? '', contended: Number(list[2]) === 1 };
}

/** The server's time in ms. */
export interface RenewReply {
  readonly now: number;
  readonly leases: readonly RenewLease[];
}

/** Reads the reply of renew.lua. @throws Error */
export function readRenew(reply: unknown): RenewReply {
  const list = listOf(reply);
  return { now: Number(list[0]), leases: eachOf(list[1], readRenewLease) };
}
