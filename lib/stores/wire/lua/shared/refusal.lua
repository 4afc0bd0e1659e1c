-- What the server refuses for one key concerns whoever asked for that key: the others of the same script have their answers,
-- for what was done for them stands. Takes what pcall gives; the refusal carries the server's words.
local function orRefused(done, reply)
  if done then return reply end
  return { 'refused', reply }
end
