-- Limits that all processes must agree on, those with MS in ms: part of the wire format (redis-keys.md). Some stand in TypeScript as
-- well; test/lua/requests.test.ts compares them.
local WAITER_LEASE_MS = 2500 -- a waiter that is silent for longer loses its place
local FIRST_LEASE_MS = 1500 -- the most that a grant made to a waiter lasts until its first renewal
-- Expiry of a Redis key is garbage collection: later than the truth, and the queue never outlives its lock.
local LOCK_GRACE_MS = 1000
local QUEUE_GRACE_MS = 500
-- As recoveryMs, on a node of a Redlock: time alone does not end its recovery, but admit.lua does, with the fences of other nodes.
local UNTIL_TOLD_MS = 1000000000000
-- The record of a longer lease says how long it is (lock-record.lua).
local USUAL_LEASE_MS = 60000
local MAX_HOLDS_OF_OWNER = 1000 -- each hold of an owner is a line that whoever looks at the lock reads
-- An instant in a record has thirteen digits whatever the server's clock shows, so that records can be cut and instants
-- compared as text.
local INSTANT = '%013.0f'
-- A floor beyond this, the year 2112 in µs, is nobody's clock but a forged or damaged number: it would use up the fences
-- that a double can tell apart. What is above it comes by counting only.
local HIGHEST_FLOOR = 4503599627370496
