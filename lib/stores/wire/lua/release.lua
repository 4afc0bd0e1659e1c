--- Takes ids away wherever they are, holding or waiting, and lets in whose turn it is; for one id or for many.
--- KEYS[...] keys     for each id: its lock, the lock's waiters, the slot group's last fence
--- ARGV[...] holders  for each: the id of the holder or waiter; and the highest fence that the caller has seen in the slot group, followed by 1 after a space when its work never began (it owes no minHoldMs), else by 0
--- RETURNS 1 released
--- RETURNS 0 lost
--- RETURNS refused  the server's words: it refused something for this id's keys
--- RETURNS a list of these when there are several ids
--- INVARIANT no other id is touched, and doing it twice is harmless
--- INVARIANT the first write deletes, so that it works on a full server
local keys, holders = KEYS, ARGV

--- @include shared/server-time

local FIELDS = 2
local count = #holders / FIELDS
local replies, uncommon = {}, {}

-- The commonest case, before the functions for all others are made. A refusal, which is a table without items, is left to them.
for n = 1, count do
  local lockKey, id = keys[3 * n - 2], holders[FIELDS * (n - 1) + 1]
  local text = redis.pcall('GET', lockKey)
  if not text then
    replies[n] = 0
  elseif #text > 0 and string.sub(text, 2, 4) == '00 ' and string.sub(text, 19, 19 + #id) == id .. ' ' then
    redis.call('DEL', lockKey)
    replies[n] = tonumber(string.sub(text, 5, 17)) >= now and 1 or 0
  else
    uncommon[#uncommon + 1] = n
  end
end
if #uncommon == 0 then return count == 1 and replies[1] or replies end

--- @include shared/limits
--- @include shared/next-fence
--- @include shared/lock-record
--- @include shared/listening
--- @include shared/queue
--- @include shared/leave
--- @include shared/settle
--- @include shared/close-lock
--- @include shared/beside-owner
--- @include shared/refusal

local function release(lockKey, queueKey, fenceKey, id, terms)
  local floor, abandoned = string.match(terms, '^(%S+) (%S+)$')
  local text = redis.call('GET', lockKey)
  if not text then return 0 end
  if leaveAsText(text, lockKey, queueKey, id, abandoned == '1') then return 1 end
  local lock = parseLock(text, { lockKey, queueKey, fenceKey }, tonumber(floor), now, nowUs)
  local there = leave(lock, id, abandoned == '1')
  settle(lock)
  closeLock(lock)
  return there and 1 or 0
end

for _, n in ipairs(uncommon) do
  replies[n] = orRefused(pcall(release, keys[3 * n - 2], keys[3 * n - 1], keys[3 * n], unpack(holders, FIELDS * (n - 1) + 1, FIELDS * n)))
end
return count == 1 and replies[1] or replies
