--- Tells which memory of the server stands behind each slot group, after telling it the fences that the caller has seen.
--- KEYS[...] fenceKeys  the last fences of slot groups
--- ARGV[...] requests   how long nothing new is granted after the server forgot, in ms; then for each group the highest fence seen in it
--- RETURNS [1] now
--- RETURNS [2] how long nothing new is granted, in ms
--- RETURNS [3...] memories  as text, one for each group
--- INVARIANT a group of which the server knows nothing, or whose record another server wrote, recovers from here on
local fenceKeys, requests = KEYS, ARGV

--- @include shared/server-time
--- @include shared/limits
--- @include shared/next-fence
--- @include shared/memory

local recoveryMs, reply = tonumber(requests[1]), { now, 0 }
for n, fenceKey in ipairs(fenceKeys) do
  local memory, recoversForMs = readMemory(fenceKey, '-', 0, recoveryMs)
  reply[2], reply[n + 2] = math.max(reply[2], recoversForMs), memory
  raiseLast(fenceKey, tonumber(requests[n + 1]))
end
return reply
