-- Takes an id out of a lock, holding or waiting; whether it was there.
local function leave(lock, id, abandoned)
  if not removeHolder(lock, id, abandoned) then return takeOut(lock, id) end
  lock.frees = true
  return true
end
