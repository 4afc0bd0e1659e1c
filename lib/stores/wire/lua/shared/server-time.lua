-- The server's time, read once for each script: in microseconds for fences, in whole milliseconds for ends.
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
