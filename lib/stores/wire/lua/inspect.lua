--- Tells what is known of a lock, and changes nothing.
--- KEYS[1] lockKey   the lock
--- KEYS[2] queueKey  its waiters
--- RETURNS [1] phase        w, r, or nothing for a free lock
--- RETURNS [2] holderCount  how many holders follow
--- RETURNS [3...] holders   six fields each: id, fence, owner or -, ms until its lease and its grace have ended, label or -, graceMs
--- RETURNS [...] waiters    three fields each: id, w or r, label or -; first all readers, then all writers, each in the order they came
--- INVARIANT whoever has ended is left out, though no other script has dropped it yet
local lockKey, queueKey = KEYS[1], KEYS[2]

local text = redis.call('GET', lockKey)
if not text then return { '', 0 } end

--- @include shared/server-time
--- @include shared/lock-record

local lock = parseLock(text, {}, 0, now, nowUs)
local reply = { lock.mode, #lock.holders }
for _, holder in ipairs(lock.holders) do
  for _, field in ipairs({ (string.gsub(holder.id, '^~', '')), holder.fence, holder.owner, holder.ending - now, holder.label, holder.graceMs }) do
    reply[#reply + 1] = field
  end
end
if not lock.queued then return reply end

local fields, queue = redis.call('HGETALL', queueKey), {}
for i = 1, #fields, 2 do queue[fields[i]] = fields[i + 1] end
for _, mode in ipairs({ 'r', 'w' }) do
  local id = queue[mode .. 'h']
  while id and queue['@' .. id] do
    local record = queue['@' .. id]
    if tonumber(string.sub(record, 1, 13)) >= now then
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = id, mode, string.match(record, '(%S+)$')
    end
    id = queue['>' .. id]
  end
end
return reply
