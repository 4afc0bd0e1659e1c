-- A server that was made a replica refuses every key. That is an error of the whole script, by which its caller leaves this server for
-- the master. Takes what the server refused with: its words, or from Redis 7 on a table with them.
local function throwIfReplica(refusal)
  local words = type(refusal) == 'table' and refusal.err or refusal
  if string.find(words, 'READONLY', 1, true) then error(refusal, 0) end
end

-- What the server refuses for one key concerns whoever asked for that key: the others of the same script have their answers,
-- for what was done for them stands. Takes what pcall gives; the refusal carries the server's words.
local function orRefused(done, reply)
  if done then return reply end
  throwIfReplica(reply)
  return { 'refused', reply }
end
