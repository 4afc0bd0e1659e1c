-- A floor beyond this, the year 2112 in µs, is nobody's clock but a forged or damaged number: it would use up the fences
-- that a double can tell apart. What is above it comes by counting only.
local HIGHEST_FLOOR = 4503599627370496

-- Reserves `count` consecutive fences and returns the first: above the slot group's last one, above what the caller has
-- seen (`floor`), and at least the clock, so that a server that lost its memory does not start again from below. What else
-- stands in the record (memory.lua) stays.
local function nextFence(fenceKey, nowUs, floor, count)
  local last, rest = string.match(redis.call('GET', fenceKey) or '0', '^(%d+)(.*)$')
  if not last then error('DAMAGED the last fence is not a number', 0) end
  local fence = math.max(nowUs, math.min(floor, HIGHEST_FLOOR) + 1, last + 1)
  redis.call('SET', fenceKey, string.format('%.0f', fence + count - 1) .. rest)
  return fence
end
