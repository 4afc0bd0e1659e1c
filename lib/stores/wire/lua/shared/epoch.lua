-- Whether a node of a Redlock remembers what it granted. One that lost its memory stays out of new grants until all that
-- it may have forgotten has ended, and after that until its fence counters have been told to it (admit.lua).
--
--   <run id> <since when, in server ms> <1 when it may vote; 0 when it never might; 2 when it might once>
--
-- Another run id is a restart, or another server in this one's place; no record at all is a server that is new, came up
-- empty, or was flushed. Whichever script comes first notices it, and the time counts from there.
local function readEpoch(epochKey, maxLeaseMs, now)
  local runId = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local known, since, state = string.match(redis.call('GET', epochKey) or '', '^(%S+) (%d+) ([012])$')
  since = tonumber(since)
  local hasVoted = state == '1' or state == '2'
  local clockSetBack = state and state ~= '1' and since > now
  if known ~= runId or clockSetBack then
    since, state = now, hasVoted and '2' or '0'
    redis.call('SET', epochKey, runId .. ' ' .. string.format('%.0f', now) .. ' ' .. state)
  end
  return { runId = runId, since = since, whole = state == '1', hasVoted = hasVoted, leftMs = math.max(0, since + maxLeaseMs + 1 - now) }
end

-- Raises the counters of slot groups, each to at least what is told of it.
local function raiseFences(fenceKeys, floors)
  for i, fenceKey in ipairs(fenceKeys) do
    if tonumber(redis.call('GET', fenceKey) or 0) < tonumber(floors[i]) then redis.call('SET', fenceKey, floors[i]) end
  end
end
