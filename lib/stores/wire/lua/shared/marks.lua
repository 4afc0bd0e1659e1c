-- The requests that were refused a lock on a node of a Redlock and wait: a line for each, first that which has waited longest.
--
--   <end> <since> <w or r> <id>
--
-- end    until when the mark counts unless the request asks again, in server ms
-- since  from when it waits, in server ms
-- id     of the holder that it will be; its ballots add a stroke and a number
-- A free lock that is kept for a request stands as held by ~> and its id until it has come or its time is over; then its mark is
-- over too. Marks order those who ask, and are hints: a node may lose all of them.
local MARK_MS = 1500
local KEPT_MS = 500 -- for the node's message and the request; a garbage collection may delay the process that is called
local MAX_MARKS = 32 -- a request that finds no room asks again, and has waited longer by then
local TURN = '~>'

-- The marks stand beside their lock. Scripts are not given their key, because a node is a single server, never a Cluster.
local function openLine(lock)
  local key = string.gsub(lock.lockKey, '}:l:', '}:m:', 1)
  local line = { key = key, marks = {}, text = redis.call('GET', key) or '' }
  local present = lock.holders[1]
  if present and string.sub(present.id, 1, 2) == TURN then line.turn, lock.holders = present, {} end
  for ending, since, mode, id in string.gmatch(line.text, '(%d+) (%d+) ([wr]) (%S+)') do
    ending = tonumber(ending)
    if ending >= now and ending <= now + MARK_MS then
      line.marks[#line.marks + 1] = { ending = ending, since = tonumber(since), mode = mode, id = id }
    end
  end
  return line
end

local function dropMark(line, id)
  for at, mark in ipairs(line.marks) do
    if mark.id == id then return table.remove(line.marks, at) end
  end
end

local function addMark(line, added)
  local marks = line.marks
  local at = #marks + 1
  while at > 1 and marks[at - 1].since > added.since do at = at - 1 end
  table.insert(marks, at, added)
  marks[MAX_MARKS + 1] = nil
end

-- True if nobody has waited longer for what this request would take away from it. Readers take nothing from readers.
local function goesFirst(line, id, mode, since)
  if line.turn then return line.turn.id == TURN .. id end
  for _, mark in ipairs(line.marks) do
    if mark.since > since then return true end
    if mode == 'w' or mark.mode == 'w' then return false end
  end
  return true
end

-- Notes whether somebody waits whom a holder that has just come in keeps out, and calls the readers who can come in beside it.
local function markWaiting(lock, line)
  lock.marked = false
  for _, mark in ipairs(line.marks) do
    if lock.mode == 'w' or mark.mode == 'w' then
      lock.marked = true
      return
    end
    tellId(lock, mark.id, 't')
  end
end

-- Keeps a free lock for the one whose turn it is already, or else for that which has waited longest.
local function keepTurn(lock, line)
  local first = line.marks[1]
  if line.turn or not first then
    lock.holders = { line.turn }
    return
  end
  lock.mode, lock.marked, first.ending = 'w', true, now + KEPT_MS
  addNobody(lock, TURN .. first.id, first.ending)
  tellId(lock, first.id, 't')
end

-- A full server may refuse marks.
local function writeLine(line)
  local lines = {}
  for i, mark in ipairs(line.marks) do
    lines[i] = string.format('%.0f %.0f %s %s', mark.ending, mark.since, mark.mode, mark.id)
  end
  local text = table.concat(lines, '\n')
  if text == line.text then return end
  if text == '' then redis.call('DEL', line.key) else redis.pcall('SET', line.key, text, 'PX', MARK_MS) end
end

-- The mark that a vote or a release brings, `<mode>,<waitedMs>,<id>`; nothing where nobody waits.
local function markOf(request)
  local mode, waitedMs, id = string.match(request.mark, '^(%a),(%d+),(%S+)$')
  return mode and { ending = now + MARK_MS, since = now - tonumber(waitedMs), mode = mode, id = id }
end

-- Gives a lock on to whose turn it is, when an id has left it: a ballot, or a request that waits no more. The release may bring the mark
-- of a request that does.
local function passOn(lock, request)
  local mark = markOf(request)
  if not lock.marked and not mark then return end
  local line = openLine(lock)
  dropMark(line, mark and mark.id or request.id)
  if mark then
    addMark(line, mark)
    lock.marked = true
  end
  if line.turn and line.turn.id == TURN .. request.id then line.turn = nil end
  if #lock.holders == 0 then keepTurn(lock, line) end
  writeLine(line)
end
