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

local function openLine(lock, marksKey)
  local line = { key = marksKey, marks = {}, text = redis.call('GET', marksKey) or '' }
  local present = lock.holders[1]
  local past = string.match(lock.text, ' ~>(%S+) ')
  if present and string.sub(present.id, 1, 2) == TURN then
    line.turn, lock.holders, past = present, {}, nil
  end
  for ending, since, patience, mode, process in string.gmatch(line.text, '(%d+) (%d+) (%d+) ([wr]) (%S+)') do
    ending = tonumber(ending)
    if ending >= lock.now and ending <= lock.now + MARK_MS and process ~= past then
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
  local marks, placed = {}, false
  for _, mark in ipairs(line.marks) do
    if not placed and added.since < mark.since then marks[#marks + 1], placed = added, true end
    marks[#marks + 1] = mark
  end
  if not placed then marks[#marks + 1] = added end
  if #marks > MAX_MARKS then table.remove(marks, #marks) end
  line.marks = marks
end

-- Whether no process has waited longer for what this request would take away from it. Readers take nothing from readers. A turn that
-- came to a process because of its mark in the other mode is not for a request that has only begun.
local function goesFirst(line, process, mode, since, begun)
  if line.turn and begun then return false end
  if line.turn then return line.turn.id == TURN .. process end
  for _, mark in ipairs(line.marks) do
    if mark.since > since then return true end
    if mode == 'w' or mark.mode == 'w' then return false end
  end
  return true
end

-- The process that has waited longest of those that a holder of this mode keeps out.
local function nextInLine(line, mode)
  for _, mark in ipairs(line.marks) do
    if mode == 'w' or mark.mode == 'w' then return mark.process end
  end
end

-- Messages are hints: a user without the right to publish must not break what they tell of. Each ends with the lock's key.
local function tellProcess(lock, process, text)
  local prefix, key = string.match(lock.lockKey, '^{([^}]*):%d+}:l:(.*)$')
  redis.pcall('PUBLISH', '{' .. prefix .. '}:c:' .. process, text .. ' ' .. key)
end

local function tellTurn(lock, process)
  tellProcess(lock, process, 't ' .. process)
end

-- Keeps a free lock for the process that is named, if it waits here, else for the one that has waited longest.
local function giveTurn(lock, line, named)
  local first = line.marks[1]
  for _, mark in ipairs(line.marks) do
    if mark.process == named then first = mark end
  end
  local ending = lock.now + first.patience
  lock.mode, lock.queued = 'w', true
  lock.holders = { { ending = ending, id = TURN .. first.process, fence = 0, fences = 1, minEnd = ending, owner = '-', label = '-', graceMs = 0 } }
  tellTurn(lock, first.process)
end

-- A full server may refuse marks: who was refused asks again without one.
local function writeLine(line)
  local lines = {}
  for i, mark in ipairs(line.marks) do
    lines[i] = string.format('%.0f %.0f %.0f %s %s', mark.ending, mark.since, mark.patience, mark.mode, mark.process)
  end
  local text = table.concat(lines, '\n')
  if text == line.text then return end
  if text == '' then redis.call('DEL', line.key) else redis.pcall('SET', line.key, text, 'PX', MARK_MS) end
end
