--- Tells which memory of the server stands behind each slot group, after telling it what the caller has seen and holds there.
--- KEYS[...] keys  for each slot group:
---   fenceKey  its last fence
--- ARGV[1] process: text  of the caller
--- ARGV[2] recoveryMs: number  how long nothing new is granted after the server forgot
--- ARGV[...] groups  for each slot group:
---   floor: number  the highest fence that the caller has seen in it
---   holds: flag    whether the caller claims it: it holds leases there that it has not brought back yet
--- RETURNS all head: now, recoversForMs  recoversForMs is how long nothing new is granted in the group that waits longest
--- RETURNS each group: memory text, fence  the name of its memory; its last fence, 0 for none
--- INVARIANT a group of which the server knows nothing, or whose record another server wrote, recovers from here on
--- INVARIANT a group that recovers stays closed while it is claimed, for 5 s from the last claim and 15 s in all
--- @bind

--- @include shared/server-time
--- @include shared/limits
--- @include shared/memory
--- @request

local recoversForMs, groups = 0, {}
for n = 1, count do
  local group = requestOf(n)
  local claim = { process = process, holds = group.holds }
  local memory, forMs, _, last = readMemory(group.fenceKey, '-', group.floor, recoveryMs, claim)
  recoversForMs, groups[n] = math.max(recoversForMs, forMs), { memory, string.format('%.0f', last) }
end
return { now, recoversForMs, groups }
