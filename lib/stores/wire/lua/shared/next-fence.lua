-- Reserves `count` consecutive fences and returns the first: above the slot group's last one, above what the caller has
-- seen (`floor`), and at least the clock, so that a server that lost its memory does not start again from below.
local function nextFence(fenceKey, nowUs, floor, count)
  local last = redis.call('GET', fenceKey)
  local fence = math.max(nowUs, floor + 1, last and last + 1 or 0)
  redis.call('SET', fenceKey, string.format('%.0f', fence + count - 1))
  return fence
end
