--- Tells what a node of a Redlock remembers: its fences, and whether it may vote.
--- KEYS[...] fenceKeys  the last fences of slot groups
--- RETURNS all head: now, server text, closed flag, since, used flag  server is how the names of its memories begin; closed when it may not vote in one of the groups, for it may have forgotten something; since is the server time in ms from which it remembers, in the group that forgot last; used when it ever voted, or was told a fence, as far as its data tell
--- RETURNS each group: fence  the last fence, 0 for none
--- INVARIANT a group that was forgotten is closed from here on
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory

local reply = { now, '', 0, 0, 0 }
for n, fenceKey in ipairs(fenceKeys) do
  local memory, closedForMs = readMemory(fenceKey, '-', 0, UNTIL_TOLD_MS)
  local last = tonumber(string.match(redis.call('GET', fenceKey), '^%d+'))
  reply[2] = string.sub(memory, 1, 17)
  if closedForMs > 0 then reply[3], reply[4] = 1, math.max(reply[4], tonumber(string.sub(memory, 18))) end
  if last > 0 then reply[5] = 1 end
  reply[5 + n] = string.format('%.0f', last)
end
return reply
