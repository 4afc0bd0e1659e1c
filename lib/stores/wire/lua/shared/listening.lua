-- Whether a waiter would hear of its turn: a grant to a process that is gone, or stands still, would keep the lock from all
-- others for a first lease. A waiter that would not hear loses its turn, never its place, and only until it is heard of again: its
-- subscriber may be renewed just now.

-- What a waiter's record says about that, behind its mode.
local TAKES_ITS_TURN = '0' -- who was passed over and has said since that it lives
local ONLY_IF_HEARD = '1' -- others go first while nobody listens, or while it is silent
local WAS_PASSED_OVER = '2' -- the same, and it happened, and the waiter has not been heard of since
local ONLY_IF_RECENT = '3' -- others go first while it is silent: on a Cluster, where this node may not know who listens

-- A waiter says that it lives every 700 ms. After so long without a word, in ms, its process stands still or is gone.
local SILENT_AFTER_MS = 1200

-- After so many in a row who do not listen the first of them has its turn: one script must not look at thousands.
local MAX_PASSED_OVER = 100

local function channelOf(lock, id)
  return '{' .. string.match(lock.lockKey, '^{([^}]*):%d+}:l:') .. '}:c:' .. (string.match(id, '^(.*)%.') or id)
end

local function isSilent(lock, record)
  return tonumber(string.sub(record, 1, 13)) < lock.now + WAITER_LEASE_MS - SILENT_AFTER_MS
end

-- A waiter whose own request runs this script hears of its turn by the answer. Where the server refuses to say who listens, everybody
-- counts as heard.
local function hearsOfItsTurn(lock, id, record)
  local turn = string.sub(record, 16, 16)
  if turn == TAKES_ITS_TURN or lock.asking[id] then return true end
  if isSilent(lock, record) then return false end
  return turn == ONLY_IF_RECENT or redis.pcall('PUBSUB', 'NUMSUB', channelOf(lock, id))[2] ~= 0
end

-- HDEL deletes nothing here, but after it a full server lets the next line through.
local function passOver(lock, id, record)
  if string.sub(record, 16, 16) == WAS_PASSED_OVER then return end
  redis.call('HDEL', lock.queueKey, '@')
  redis.call('HSET', lock.queueKey, '@' .. id, string.sub(record, 1, 15) .. WAS_PASSED_OVER .. string.sub(record, 17))
end
