--- Tells which memory of the server stands behind each slot group, after telling it the fences that the caller has seen.
--- KEYS[...] fenceKeys  the last fences of slot groups
--- ARGV[1] recoveryMs: number  how long nothing new is granted after the server forgot
--- ARGV[...] floors: number  the highest fence seen in each of those groups
--- RETURNS all head: now, recoversForMs  recoversForMs is how long nothing new is granted in the group that waits longest
--- RETURNS each group: memory text  the name of its memory
--- INVARIANT a group of which the server knows nothing, or whose record another server wrote, recovers from here on
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory

local reply = { now, 0 }
for n, fenceKey in ipairs(fenceKeys) do
  local memory, recoversForMs = readMemory(fenceKey, '-', tonumber(floors[n]), recoveryMs)
  reply[2], reply[n + 2] = math.max(reply[2], recoversForMs), memory
end
return reply
