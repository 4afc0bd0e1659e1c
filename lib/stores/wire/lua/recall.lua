--- Tells which memory of the server stands behind each slot group, after telling it the fences that the caller has seen.
--- KEYS[...] fenceKeys  the last fences of slot groups
--- ARGV[...] requests   how long nothing new is granted after the server forgot, in ms; then for each group the highest fence seen in it
--- RETURNS [1] now
--- RETURNS [2...] memories  as text, one for each group
--- INVARIANT a group of which the server knows nothing, or whose record another server wrote, recovers from here on
local fenceKeys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory

local recoveryMs, reply = tonumber(requests[1]), { now }
for n, fenceKey in ipairs(fenceKeys) do
  reply[n + 1] = readMemory(fenceKey, '-', 0, recoveryMs)
  raiseLast(fenceKey, tonumber(requests[n + 1]))
end
return reply
