-- Whether anybody listens on the channel of a waiter's process: a grant to a process that is gone would keep the lock from
-- all others for a first lease. A waiter for which nobody listens loses its turn, never its place, and only until it is
-- heard of again: its subscriber may be renewed just now.

-- What a waiter's record says about that, behind its mode.
local TAKES_ITS_TURN = '0' -- on a Cluster, where this node may not know who listens; and who has said since that it lives
local ONLY_IF_HEARD = '1' -- others go first while nobody listens
local WAS_PASSED_OVER = '2' -- the same, and it happened, and the waiter has not been heard of since

-- After so many in a row who do not listen the first of them has its turn: one script must not look at thousands.
local MOST_PASSED_OVER = 100

local function channelOf(lock, id)
  return '{' .. string.match(lock.lockKey, '^{([^}]*):%d+}:l:') .. '}:c:' .. (string.match(id, '^(.*)%.') or id)
end

-- Who asks in this very script is told by its answer. A server that does not say who listens leaves everybody its turn.
local function hearsOfItsTurn(lock, id, record)
  if string.sub(record, 16, 16) == TAKES_ITS_TURN or lock.asking[id] then return true end
  return redis.pcall('PUBSUB', 'NUMSUB', channelOf(lock, id))[2] ~= 0
end

-- HDEL deletes nothing here, but after it a full server lets the next line through.
local function passOver(lock, id, record)
  if string.sub(record, 16, 16) == WAS_PASSED_OVER then return end
  redis.call('HDEL', lock.queueKey, '@')
  redis.call('HSET', lock.queueKey, '@' .. id, string.sub(record, 1, 15) .. WAS_PASSED_OVER .. string.sub(record, 17))
end
