--- Lets a node of a Redlock vote again that may have forgotten something, after telling it the fences that others remember.
--- KEYS[...] fenceKeys  the last fences of slot groups
--- ARGV[1] maxLeaseMs: number  the longest lease
--- ARGV[2] since: number  from when its memory counts, as recall.lua told it
--- ARGV[...] floors: number  for each of the first groups the fence to be above
--- RETURNS 1 admitted
--- RETURNS 0 refused   it forgot once more since, or may have forgotten what has not ended
--- INVARIANT fences are told before the node may vote
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory

local refused = false
for n, fenceKey in ipairs(fenceKeys) do
  local memory, closedForMs = readMemory(fenceKey, '-', tonumber(floors[n] or 0), UNTIL_TOLD_MS)
  local began = tonumber(string.sub(memory, 18))
  refused = refused or closedForMs > 0 and (began > since or now <= began + maxLeaseMs)
end
if refused then return 0 end
for _, fenceKey in ipairs(fenceKeys) do
  -- Only a node that never voted has no fence at all.
  local last, memory = string.match(redis.call('GET', fenceKey), '^(%d+) (%S+)')
  redis.call('SET', fenceKey, (last == '0' and '1' or last) .. ' ' .. memory)
end
return 1
