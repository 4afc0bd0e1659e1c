--- Puts a ticket into the place of holds, until the ticket's time is over; of all of them or of none.
--- KEYS[...] keys  for each hold:
---   lockKey   the lock
---   queueKey  its waiters
--- ARGV[1] ticketId: text  the id that stands for the ticket
--- ARGV[2] withinMs: number  how long it can be adopted
--- ARGV[3] notAfter: number  server time in ms after which nothing is done
--- ARGV[...] holds  for each hold:
---   id: text     of its holder
---   stays: flag  whether this holder stays beside the ticket, because others of its process read on under it
--- RETURNS 1 handed off: now, until  the last server time in ms at which the ticket can be adopted
--- RETURNS 2 lost: now, position  which hold is not there, counted from 1; nothing was done for any
--- RETURNS 3 late: now  after notAfter: nothing was done
--- INVARIANT a ticket that is there is not handed off again, and keeps its end
--- INVARIANT beside a hold that stays, a copy of the request that comes after the adoption makes the ticket anew, so it must be late
--- INVARIANT what minHoldMs keeps taken beyond the ticket's time stands as its grace: it cannot be adopted in it
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/close-lock
--- @request

if now > notAfter then return { 3, now } end

local holds, lost, last = {}, 0, now + withinMs
for n = 1, count do
  local hold = requestOf(n)
  hold.lock = parseLock(redis.call('GET', hold.lockKey) or '', hold)
  hold.ticket = holderOf(hold.lock, ticketId)
  hold.holder, hold.position = holderOf(hold.lock, hold.id)
  if lost == 0 and not hold.ticket and not hold.holder then lost = n end
  if hold.ticket then last = leaseEnd(hold.ticket) end
  holds[n] = hold
end
if lost > 0 then return { 2, now, lost } end

-- The ticket has all that is known of the hold, but for its time.
local function handOff(hold)
  local lock, ticket = hold.lock, {}
  for field, value in pairs(hold.holder) do ticket[field] = value end
  ticket.id, ticket.ending = ticketId, math.max(last, ticket.minEnd)
  ticket.graceMs = ticket.ending - last
  if hold.stays then
    lock.holders[#lock.holders + 1] = ticket
  else
    lock.holders[hold.position] = ticket
  end
  lock.frees = true -- on a full server too the hold leaves the process
  closeLock(lock)
end

for _, hold in ipairs(holds) do
  if not hold.ticket then handOff(hold) end
end
return { 1, now, last }
