-- Who was refused a lock on a node of a Redlock and still wants it: a line for each process and mode, first who has waited longest.
--
--   <end> <since> <patience> <w or r> <process>
--
-- end       until when the mark counts unless its process asks again, in server ms
-- since     from when it waits, in server ms
-- patience  how long a free lock is kept for it when its turn has come, in ms
-- A free lock that is kept for a process stands as held by ~> and the name of the process until it has come or its patience
-- is over; who does not come loses its mark. Marks order those who ask, and are hints: a node may lose all of them.
local MARK_MS = 1500
local MAX_MARKS = 32 -- who finds no room asks again, and has waited longer by then
local TURN = '~>'

-- The marks stand beside their lock. Scripts are not given their key, because a node is a single server, never a Cluster.
local function openLine(lock)
  local key = string.gsub(lock.lockKey, '}:l:', '}:m:', 1)
  local line = { key = key, marks = {}, text = redis.call('GET', key) or '' }
  local present = lock.holders[1]
  local past = string.match(lock.text, ' ~>(%S+) ')
  if present and string.sub(present.id, 1, 2) == TURN then
    line.turn, lock.holders, past = present, {}, nil
  end
  for ending, since, patience, mode, process in string.gmatch(line.text, '(%d+) (%d+) (%d+) ([wr]) (%S+)') do
    ending = tonumber(ending)
    if ending >= now and ending <= now + MARK_MS and process ~= past then
      line.marks[#line.marks + 1] = { ending = ending, since = tonumber(since), patience = tonumber(patience), mode = mode, process = process }
    end
  end
  return line
end

-- Takes the marks of a process out; gives the one of this mode, and the one of the other mode.
local function dropMarks(line, process, mode)
  local kept, own, other = {}, nil, nil
  for _, mark in ipairs(line.marks) do
    if mark.process ~= process then kept[#kept + 1] = mark elseif mark.mode == mode then own = mark else other = mark end
  end
  line.marks = kept
  return own, other
end

local function addMark(line, added)
  if not added then return end
  local marks = line.marks
  local at = #marks + 1
  while at > 1 and marks[at - 1].since > added.since do
    marks[at] = marks[at - 1]
    at = at - 1
  end
  marks[at] = added
  marks[MAX_MARKS + 1] = nil
end

-- Puts a mark back of a process that has been served: it stands behind all others, whatever else it waits for.
local function standBehind(line, mark)
  if mark then mark.since = now end
  addMark(line, mark)
end

-- Whether no process has waited longer for what this request would take away from it. Readers take nothing from readers. A turn that
-- came to a process because of its mark in the other mode is not for a request that has only begun.
local function goesFirst(line, process, mode, since, begun)
  if line.turn then return not begun and line.turn.id == TURN .. process end
  for _, mark in ipairs(line.marks) do
    if mark.since > since then return true end
    if mode == 'w' or mark.mode == 'w' then return false end
  end
  return true
end

local function callTurn(lock, process)
  lock.told[#lock.told + 1] = { process .. '.', 't ' .. process }
end

-- Notes whether somebody waits whom a holder that has just come in keeps out, and calls the readers who can come in beside it.
local function markWaiting(lock, line)
  lock.marked = false
  for _, mark in ipairs(line.marks) do
    if lock.mode == 'w' or mark.mode == 'w' then
      lock.marked = true
      return
    end
    callTurn(lock, mark.process)
  end
end

-- Keeps a free lock for the one that has waited longest.
local function giveTurn(lock, line)
  local first = line.marks[1]
  lock.mode, lock.marked, lock.holders = 'w', true, {}
  addNobody(lock, TURN .. first.process, now + first.patience)
  callTurn(lock, first.process)
end

-- A full server may refuse marks.
local function writeLine(line)
  local lines = {}
  for i, mark in ipairs(line.marks) do
    lines[i] = string.format('%.0f %.0f %.0f %s %s', mark.ending, mark.since, mark.patience, mark.mode, mark.process)
  end
  local text = table.concat(lines, '\n')
  if text == line.text then return end
  if text == '' then redis.call('DEL', line.key) else redis.pcall('SET', line.key, text, 'PX', MARK_MS) end
end

-- Gives a lock on to whose turn it is, when an id has left it. The id `<process>.~` stands for the marks of a process, which go, unless
-- the request brings one: `<mode>,<waitedMs>,<patience>`.
local function passOn(lock, request)
  local process, own = string.match(request.id, '^(.*)%.(.*)$')
  local mode, waitedMs, patience = string.match(request.mark, '^(%a),(%d+),(%d+)$')
  if not lock.marked and not mode then return end
  local line, isUnmarked, hasHeld = openLine(lock), own == '~' and not mode, own ~= '~' and not request.abandoned
  if mode then
    local _, other = dropMarks(line, process, mode)
    if hasHeld then standBehind(line, other) else addMark(line, other) end
    addMark(line, { ending = now + MARK_MS, since = now - tonumber(waitedMs), patience = tonumber(patience), mode = mode, process = process })
    lock.marked = true
  elseif isUnmarked or hasHeld then
    local writer, reader = dropMarks(line, process, 'w')
    if not isUnmarked then
      standBehind(line, writer)
      standBehind(line, reader)
    end
  end
  if line.turn and not (isUnmarked and line.turn.id == TURN .. process) then
    lock.holders = { line.turn }
  elseif #lock.holders == 0 and line.marks[1] then
    giveTurn(lock, line)
  end
  writeLine(line)
end
