--- Takes ballots, or the marks of a process, away from a node of a Redlock, and calls whose turn it is; for one or for many.
--- KEYS[...] keys  for each ballot:
---   lockKey   the lock
---   marksKey  the marks of those who wait
--- ARGV[...] requests  for each ballot:
---   terms: <keepsMarks><mayBeOver><abandoned> <id> <mode> <waitedMs> <patienceMs> <process> <next>  what leaves, and how
---     keepsMarks: flag    whether the marks of the process stay as they are
---     mayBeOver: flag     whether its lease may have ended before, by the clock of the caller, who wants to know
---     abandoned: flag     whether its work never began, so that it owes no minHoldMs
---     id: text or -       of the ballot
---     mode: mode          how the process waits
---     waitedMs: number    how long it has waited for this; -1 when it does not want the lock any more
---     patienceMs: number  how long to keep the lock for it when its turn has come
---     process: text       of the caller
---     next: text or -     the process whose turn it is, if that waits here
--- RETURNS 1 released
--- RETURNS 0 lost
--- RETURNS refused  the server's words: it refused something for these keys
--- RETURNS a list of these when there are several
--- INVARIANT no other ballot is touched, and doing it twice is harmless
--- INVARIANT the first write needs no memory, so that it works on a full server
--- @bind

local replies, uncommon = {}, nil

-- The commonest case, before the functions for all others are made and the clock is read. A refusal, which is a table without
-- items, is left to them.
for n = 1, count do
  --- @bind lockKey, keepsMarks, mayBeOver, id of n
  local text = keepsMarks == '1' and redis.pcall('GET', lockKey)
  if keepsMarks == '1' and not text then
    replies[n] = 0
  elseif text and mayBeOver == '0' and #text > 0 and string.sub(text, 2, 4) == '00 ' and string.sub(text, 19, 19 + #id) == id .. ' ' then
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
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/marks
--- @include shared/refusal
--- @request

local function write(lock)
  if #lock.holders == 0 then return redis.call('DEL', lock.lockKey) end
  local text, keepMs = formatLock(lock), keepMsOf(lock)
  if text == lock.text then return end
  redis.call('PEXPIRE', lock.lockKey, keepMs)
  redis.call('SET', lock.lockKey, text, 'PX', keepMs)
end

-- A process that goes on waiting keeps its place in the line, also after a vote that came to nothing.
local function changeMarks(line, request)
  local process, waitedMs, mode = request.process, request.waitedMs, request.mode
  if request.keepsMarks then return end
  if line.turn and line.turn.id == TURN .. process then line.turn = nil end
  local _, other = dropMarks(line, process, mode)
  if waitedMs < 0 then return end
  addMark(line, other)
  addMark(line, { ending = now + MARK_MS, since = now - waitedMs, patience = request.patienceMs, mode = mode, process = process })
end

local function giveBack(request)
  local text = redis.call('GET', request.lockKey)
  local lock = parseLock(text or '', request)
  local line = openLine(lock, request.marksKey)
  local there = removeHolder(lock, request.id, request.abandoned)
  changeMarks(line, request)
  if line.turn then
    lock.holders = { line.turn }
  elseif text and #lock.holders == 0 and line.marks[1] then
    giveTurn(lock, line, request.next)
  end
  if text then write(lock) end
  writeLine(line)
  return there and 1 or 0
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(giveBack, requestOf(n)))
end
return count == 1 and replies[1] or replies
