-- Lengths that all processes must agree on, in ms: part of the wire format (redis-keys.md).
local WAITER_LEASE_MS = 2500 -- a waiter that is silent for longer loses its place
local FIRST_LEASE_MS = 1500 -- the most that a grant made to a waiter lasts until its first renewal
-- Expiry of a Redis key is garbage collection: later than the truth, and the queue never outlives its lock.
local LOCK_GRACE_MS = 1000
local QUEUE_GRACE_MS = 500
-- An instant in a record has thirteen digits whatever the server's clock shows, so that records can be cut and instants
-- compared as text.
local INSTANT = '%013.0f'
