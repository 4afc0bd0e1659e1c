/** The small worlds of one Redis: who is in them, and what may happen to them. */
import type { Task } from './redis-state.js';
import type { RedisPlan } from './redis-world.js';
import type { RedlockPlan } from './redlock-world.js';

const WRITE: Task = { mode: 'write' };
const READ: Task = { mode: 'read' };
const OWNED: Task = { mode: 'write', owner: 'o' };
const PERMIT: Task = { mode: 'write', permits: 2 };
const GIVE: Task = { mode: 'write', handsOff: true };
const GIVE_BESIDE_READERS: Task = { mode: 'read', handsOff: true, othersStay: true };
const ADOPT_READ: Task = { mode: 'read', adopts: true };
const ADOPT: Task = { mode: 'write', adopts: true };
const COMMON = { leaseMs: 1_000, recoveryMs: 0, tickMs: 700, ticks: 3, faults: {} };
const RECOVERS = { ...COMMON, recoveryMs: 1_000 };

export const redisWorlds: readonly RedisPlan[] = [
  { ...COMMON, name: 'a writer and a waiter', tasks: [[WRITE], [WRITE]], faults: { deaf: 1 }, isQuick: true },
  { ...COMMON, name: 'a yield', tasks: [[WRITE, { ...WRITE, replaces: true }], [WRITE]], isQuick: true, isLonger: true },
  { ...COMMON, name: 'reading and writing', ticks: 1, tasks: [[WRITE], [READ], [READ]] },
  { ...COMMON, name: 'reading and writing at one instant', ticks: 0, tasks: [[WRITE], [READ], [READ]], isQuick: true },
  { ...COMMON, name: 'an owner', ticks: 1, tasks: [[OWNED], [OWNED], [WRITE]] },
  { ...COMMON, name: 'two permits', ticks: 1, tasks: [[PERMIT], [PERMIT], [PERMIT]] },
  { ...COMMON, name: 'two permits at one instant', ticks: 0, tasks: [[PERMIT], [PERMIT], [PERMIT]], isQuick: true, isLonger: true },
  { ...COMMON, name: 'a process that dies', ticks: 4, tasks: [[WRITE], [WRITE]], faults: { crash: 1 } },
  { ...COMMON, name: 'a waiter that gives up', ticks: 1, tasks: [[WRITE], [{ ...WRITE, givesUp: true }], [WRITE]] },
  { ...COMMON, name: 'reading, and a writer that gives up', ticks: 1, tasks: [[READ], [{ ...WRITE, givesUp: true }], [READ]] },
  { ...COMMON, name: 'one process to which all is late', tasks: [[WRITE]], renews: true, faults: { late: 1, slow: 3 }, isQuick: true },
  { ...COMMON, name: 'a request that is held up', tasks: [[WRITE], [WRITE]], faults: { late: 1 } },
  { ...COMMON, name: 'a release that is held up', tasks: [[WRITE, WRITE], [WRITE]], suffers: ['release'], faults: { late: 1 } },
  { ...COMMON, name: 'a request that comes twice', ticks: 2, tasks: [[WRITE], [WRITE]], faults: { twice: 1 } },
  { ...COMMON, name: 'push and answer', tasks: [[WRITE], [WRITE]], faults: { slow: 1, deaf: 1 } },
  { ...COMMON, name: 'a message that comes late', ticks: 2, tasks: [[WRITE, WRITE], [WRITE]], faults: { slow: 1 } },
  { ...COMMON, name: 'renewals and the end', renews: true, tasks: [[WRITE], [WRITE]], faults: { silence: 1 } },
  { ...COMMON, name: 'a ticket that two bring', tasks: [[GIVE], [ADOPT], [ADOPT]], ticks: 2, isQuick: true },
  { ...COMMON, name: 'a ticket, and a writer', tasks: [[GIVE], [ADOPT], [WRITE]], ticks: 2 },
  { ...COMMON, name: 'a hand-off that is held up', tasks: [[GIVE], [ADOPT]], suffers: ['hand off'], faults: { late: 2 } },
  { ...COMMON, name: 'an adoption that is held up', tasks: [[GIVE], [{ ...ADOPT, givesUp: true }]], suffers: ['adopt', 'release'], faults: { late: 2 } },
  { ...COMMON, name: 'what a ticket needs comes twice', withinMs: 300, tasks: [[GIVE], [ADOPT]], faults: { twice: 2 } },
  { ...COMMON, leaseMs: 2_000, name: 'a ticket beside readers', tasks: [[GIVE_BESIDE_READERS], [ADOPT_READ], [ADOPT_READ]], ticks: 3, suffers: ['hand off'], faults: { late: 1 } },
  { ...RECOVERS, name: 'a ticket, and a flush', tasks: [[GIVE], [ADOPT]], ticks: 2, faults: { flush: 1 }, isQuick: true },
  { ...RECOVERS, name: 'a flush', tasks: [[WRITE], [WRITE]], faults: { flush: 1 } },
  { ...RECOVERS, name: 'a restart without data', ticks: 1, tasks: [[WRITE], [WRITE]], faults: { 'empty restart': 1 } },
  { ...RECOVERS, name: 'a restart with data', ticks: 1, tasks: [[WRITE], [WRITE]], faults: { restart: 1 } },
  { ...RECOVERS, name: 'a fail-over that lacks the last script', ticks: 1, tasks: [[WRITE], [WRITE]], faults: { failover: 1 } },
];

const VOTES = { leaseMs: 1_000, maxLeaseMs: 1_000, tickMs: 700, ticks: 2, attempts: 1, tasks: [1, 1], skewsMs: [0, 0], faults: {} };

/** The small worlds of a Redlock of three nodes. */
export const redlockWorlds: readonly RedlockPlan[] = [
  { ...VOTES, name: 'votes of three nodes', isQuick: true },
  { ...VOTES, name: 'one process, and a vote that is held up', tasks: [1], ticks: 3, faults: { late: 1 }, isQuick: true },
  { ...VOTES, name: 'votes, withdrawals and other tries', attempts: 2 },
  { ...VOTES, name: 'votes whose answers travel', answersTravel: true, ticks: 1 },
  { ...VOTES, name: 'a vote that is held up', faults: { late: 1 } },
  { ...VOTES, name: 'a node that is flushed', faults: { flush: 1 } },
  { ...VOTES, name: 'a node that restarts without its data', faults: { 'empty restart': 1 } },
  { ...VOTES, name: 'the fences of a node that forgot', tasks: [1], attempts: 2, maxLeaseMs: 600, skewsMs: [-600_000], hasGranted: true, suffers: ['recall of others'], faults: { 'empty restart': 1, late: 1 } },
];
