-- Takes an id out of a lock, holding or waiting; whether it was there. A holder that owes a part of its minHoldMs leaves
-- the lock taken for the rest of it, to nobody; one whose work never began owes nothing.
local function leave(lock, id, abandoned)
  local holder, position = holderOf(lock, id)
  if not holder then return takeOut(lock, id) end
  lock.frees = true
  if holder.minEnd > lock.now and not abandoned then
    holder.id, holder.ending, holder.graceMs = '~' .. id, holder.minEnd, 0
  else
    table.remove(lock.holders, position)
  end
  return true
end
