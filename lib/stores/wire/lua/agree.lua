--- Agrees with the other processes of a prefix on the wire format; where there is none yet, it becomes that of this process.
--- KEYS[1] formatKey  version=<version> groups=<groups> maxLeaseMs=<longest>
--- ARGV[1] oldest: number      the oldest version that this process can read and write
--- ARGV[2] newest: number      the newest
--- ARGV[3] groups: number      the number of slot groups
--- ARGV[4] maxLeaseMs: number  the longest lease of this process
--- RETURNS 1 agreed: version, longestMs  the version that all write, and the longest lease of all
--- RETURNS 0 other: format text  theirs, which this process does not understand
--- INVARIANT the longest lease that a process has declared counts
--- @bind

local text = redis.call('GET', formatKey)
local version, theirGroups, longest = newest, groups, maxLeaseMs
if text then
  version, theirGroups, longest = string.match(text, '^version=(%d+) groups=(%d+) maxLeaseMs=(%d+)$')
  version = tonumber(version)
  if not version or version < oldest or version > newest or tonumber(theirGroups) ~= groups then return { 0, text } end
  longest = math.max(tonumber(longest), maxLeaseMs)
end
local agreed = string.format('version=%.0f groups=%.0f maxLeaseMs=%.0f', version, groups, longest)
if agreed ~= text then redis.call('SET', formatKey, agreed) end
return { 1, version, longest }
