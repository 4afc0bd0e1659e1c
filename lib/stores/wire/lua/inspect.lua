--- Tells what is known of a lock, and changes nothing.
--- KEYS[1] lockKey   the lock
--- KEYS[2] queueKey  its waiters
--- RETURNS all head: phase text  the phase is w, r, p (permits), or nothing for a free lock
--- RETURNS each holder: id text, fence, owner encoded, leftMs, label encoded, graceMs  leftMs until the lease and the grace after it have ended
--- RETURNS each waiter: id text, mode w or r, label encoded  first all readers, then all writers, each in the order they came
--- INVARIANT whoever has ended is left out, though no other script has dropped it yet
--- INVARIANT what keeps a lock that nobody holds is left out: the time for leases to be brought back, and a turn on a node of a Redlock
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/lock-record

local lock = openLock({ lockKey = lockKey })
local holders, waiters = {}, {}
for _, holder in ipairs(lock.holders) do
  -- Only what stands in the place of a holder has no fences.
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
return { lock.mode, holders, waiters }
