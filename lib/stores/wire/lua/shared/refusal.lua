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

-- The answers to many requests as one list behind the server's time, each filled up with zeros to this size. The code 3 and the server's
-- words stand for a request that it refused.
local function answersTo(count, requestOf, size, answer)
  local reply = { now }
  for n = 1, count do
    local done, told = pcall(answer, requestOf(n))
    if not done then
      throwIfReplica(told)
      told = { 3, told }
    end
    for field = 1, size do reply[#reply + 1] = told[field] or 0 end
  end
  return reply
end
