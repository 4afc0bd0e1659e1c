--- Puts new holders into the place of a ticket; of all its locks or of none.
--- KEYS[...] keys  for each lock:
---   lockKey   the lock
---   queueKey  its waiters
---   fenceKey  the slot group's last fence
--- ARGV[1] ticketId: text  the id that stands for the ticket
--- ARGV[2] ticketEnd: number  the last server time in ms at which the ticket can be adopted, as the hand-off told it
--- ARGV[3] notAfter: number  server time in ms after which nothing is done
--- ARGV[4] leaseMs: number  how long they may hold without a renewal
--- ARGV[5] graceMs: number  how long the lock stays taken after a lease that ended without a release
--- ARGV[6] label: encoded or -  what an operator reads
--- ARGV[7] longestMs: number  the longest lease that can be
--- ARGV[8] recoveryMs: number  how long nothing new is granted after the server forgot
--- ARGV[...] holds  for each lock:
---   id: text       of its new holder
---   floor: number  the highest fence that the caller has seen in the slot group
---   known: text    what the server told the caller as its memory, or as many dashes
--- RETURNS all head: outcome text, now, detail, memory text  outcome is adopted, gone, late (it came after notAfter) or recovering; detail is the number of the lock that is gone, from 1, or for how many ms the server recovers; memory is that of the slot group of the lock that is gone, else of the first lock
--- RETURNS each hold: fence, mode mode, end, minHoldMs, contended flag, owner encoded, permits, memory text  the end is that of the lease, without its grace; minHoldMs is what is left of it; contended when others wait; permits that the lock has, or 0
--- INVARIANT a ticket is adopted once, and not after its time, also when requests that came twice have put it there anew
--- INVARIANT the fence rises, unless other holds of the same owner go on, which share theirs
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/queue
--- @include shared/settle
--- @include shared/close-lock
--- @request

if now > notAfter then return { 'late', now, 0, '' } end

local holds, gone, recoversForMs = {}, 0, 0
for n = 1, count do
  local hold = requestOf(n)
  local memory, leftMs = readMemory(hold.fenceKey, hold.known, hold.floor, recoveryMs)
  hold.longestMs = longestMs
  local lock = parseLock(redis.call('GET', hold.lockKey) or '', hold)
  lock.memory, lock.recoversForMs = memory, leftMs
  settle(lock)
  hold.memory, hold.lock, hold.ticket, hold.adopted = memory, lock, holderOf(lock, ticketId), holderOf(lock, hold.id)
  if not hold.adopted then
    if gone == 0 and (not hold.ticket or math.min(ticketEnd, leaseEnd(hold.ticket)) < now) then gone = n end
    recoversForMs = math.max(recoversForMs, leftMs)
  end
  holds[n] = hold
end

-- The fence that the ticket shares with other holds of its owner.
local function sharedFence(lock, ticket)
  if ticket.owner == '-' or lock.mode == 'p' then return nil end
  for _, holder in ipairs(lock.holders) do
    if holder ~= ticket and holder.owner == ticket.owner and not isReleased(holder) then return holder.fence end
  end
end

local function adopt(hold)
  local lock, holder = hold.lock, hold.ticket
  local floor = math.max(lock.floor, holder.fence + holder.fences - 1)
  holder.fence, holder.fences = sharedFence(lock, holder) or nextFence(lock.fenceKey, nowUs, floor, 1), 1
  holder.id, holder.label, holder.graceMs = hold.id, label, graceMs
  holder.ending = math.max(now + leaseMs, holder.minEnd) + graceMs
  hold.adopted = holder
end

local function answer()
  if gone > 0 then return { 'gone', now, gone, holds[gone].memory } end
  if recoversForMs > 0 then return { 'recovering', now, recoversForMs, holds[1].memory } end
  local reply = { 'adopted', now, 0, holds[1].memory }
  for _, hold in ipairs(holds) do
    if not hold.adopted then adopt(hold) end
    local lock, holder = hold.lock, hold.adopted
    local mode, owner = lock.mode == 'r' and 0 or 1, lock.mode == 'p' and '-' or holder.owner
    for _, field in ipairs({ holder.fence, mode, leaseEnd(holder), math.max(0, holder.minEnd - now), lock.queued and 1 or 0, owner, lock.permits, hold.memory }) do
      reply[#reply + 1] = field
    end
  end
  return reply
end

local reply = answer()
for _, hold in ipairs(holds) do closeLock(hold.lock) end
return reply
