--- Takes ballots, or the marks of a process, away from a node of a Redlock, and calls whose turn it is; for one or for many.
--- KEYS[...] keys    for each: the lock, the marks of those who wait
--- ARGV[...] leaving  for each: the id of the ballot or -, 1 when its work never began (it owes no minHoldMs) else 0, the process whose turn it is, if that waits here, or -, the caller's process, how long it has waited for this in ms (-1 when it does not want the lock any more, -2 to leave its marks as they are), mode (w or r), patienceMs (how long to keep the lock for it when its turn has come)
--- RETURNS 1 released
--- RETURNS 0 lost
--- RETURNS refused  the server's words: it refused something for these keys
--- RETURNS a list of these when there are several
--- INVARIANT no other ballot is touched, and doing it twice is harmless
--- INVARIANT the first write needs no memory, so that it works on a full server
local keys, leaving = KEYS, ARGV

--- @include shared/server-time

local FIELDS = 7
local count = #leaving / FIELDS
local replies, uncommon = {}, {}

-- The commonest case, before the functions for all others are made. A refusal, which is a table without items, is left to them.
for n = 1, count do
  local lockKey, id, waitedMs = keys[2 * n - 1], leaving[FIELDS * (n - 1) + 1], leaving[FIELDS * (n - 1) + 5]
  local text = redis.pcall('GET', lockKey)
  local ending, holder
  if text and #text > 0 then ending, holder = string.match(text, '^.00 (%d+) (%S+) ') end
  if not text and waitedMs == '-2' then
    replies[n] = 0
  elseif holder == id and waitedMs == '-2' then
    redis.call('DEL', lockKey)
    replies[n] = tonumber(ending) >= now and 1 or 0
  else
    uncommon[#uncommon + 1] = n
  end
end
if #uncommon == 0 then return count == 1 and replies[1] or replies end

--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/marks
--- @include shared/refusal

local function write(lock)
  if #lock.holders == 0 then return redis.call('DEL', lock.lockKey) end
  local text, keepMs = formatLock(lock), string.format('%.0f', lastEnd(lock) - now + LOCK_GRACE_MS)
  if text == lock.text then return end
  redis.call('PEXPIRE', lock.lockKey, keepMs)
  redis.call('SET', lock.lockKey, text, 'PX', keepMs)
end

local function leave(lock, id, abandoned)
  local holder, position = holderOf(lock, id)
  if not holder then return 0 end
  if holder.minEnd > now and not abandoned then
    holder.id, holder.ending, holder.graceMs = '~' .. id, holder.minEnd, 0
  else
    table.remove(lock.holders, position)
  end
  return 1
end

-- A process that goes on waiting keeps its place in the line, also after a vote that came to nothing.
local function changeMarks(line, process, waitedMs, mode, patienceMs)
  if waitedMs < -1 then return end
  if line.turn and line.turn.id == TURN .. process then line.turn = nil end
  local before, other = dropMarks(line, process, mode)
  if waitedMs < 0 then return end
  addMark(line, other)
  local since = math.min(now - waitedMs, before and before.since or now)
  addMark(line, { ending = now + MARK_MS, since = since, patience = patienceMs, mode = mode, process = process })
end

local function giveBack(lockKey, marksKey, id, abandoned, named, process, waitedMs, mode, patienceMs)
  local text = redis.call('GET', lockKey)
  local lock = parseLock(text or '', { lockKey }, 0, now, 0)
  local line = openLine(lock, marksKey)
  local there = leave(lock, id, abandoned == '1')
  changeMarks(line, process, tonumber(waitedMs), mode, tonumber(patienceMs))
  if line.turn then
    lock.holders = { line.turn }
  elseif text and #lock.holders == 0 and line.marks[1] then
    giveTurn(lock, line, named)
  end
  if text then write(lock) end
  writeLine(line)
  return there
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(giveBack, keys[2 * n - 1], keys[2 * n], unpack(leaving, FIELDS * (n - 1) + 1, FIELDS * n)))
end
return count == 1 and replies[1] or replies
