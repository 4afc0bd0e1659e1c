/** What a node of a Redlock that lost its memory is told, on simulated masters with the real scripts: the fences of the process that greets it, and those of other nodes. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { KnownServers } from '../../../lib/stores/redlock/known-servers.js';
import type { NodeLink } from '../../../lib/stores/redlock/node-link.js';
import type { Memory } from '../../../lib/stores/redlock/node-memory.js';
import { NodeOutages } from '../../../lib/stores/redlock/node-outages.js';
import { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { byIoredis } from '../../../lib/stores/wire/ioredis.js';
import { RedisKeys, SLOT_GROUPS } from '../../../lib/stores/wire/redis-keys.js';
import { SimClient } from '../../simulation/sim-client.js';
import type { SimServer } from '../../simulation/sim-server.js';
import { SimulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';

const KEYS = new RedisKeys('lock');
const LOCKS = ['a', 'b', 'c', 'd', 'e', 'f'];
const MAX_LEASE_MS = 4_000;

let redlock: SimulatedRedlock;
beforeEach(() => void (redlock = new SimulatedRedlock()));
afterEach(() => redlock.close());

/** The last fence of each slot group. */
const fencesOf = (server: SimServer): number[] => Array.from({ length: SLOT_GROUPS }, (_, group) => parseInt(server.text(KEYS.fence(group)) ?? '0', 10));
const forget = (server: SimServer): void => {
  server.stop();
  server.start(false);
};

async function ask({ store }: RedlockMember, key: string, id: string): Promise<void> {
  const request: AcquireRequest = { key, id, mode: 'write', leaseMs: 1_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: redlock.clock.now() + 2_000 };
  expect((await redlock.runUntil(store.acquire(request))).kind).toBe('granted');
  await redlock.runUntil(store.release({ key, id }));
}

/** A process that had locks of different slot groups, one after another. */
async function busyProcess(): Promise<RedlockMember> {
  const member = await redlock.opened('p', { maxLeaseMs: MAX_LEASE_MS });
  for (const key of LOCKS) {
    await ask(member, key, `p.${key}`);
    await redlock.pass(7);
  }
  expect(new Set(fencesOf(redlock.servers[0]!)).size).toBe(LOCKS.length + 1);
  return member;
}

describe('A node that forgot', () => {
  it('is told by other nodes the last fence of each lock before it votes again, where nobody lives who has seen them', async () => {
    const [one, two] = redlock.servers as [SimServer, SimServer];
    await (await busyProcess()).store.close();
    const known = fencesOf(two);
    forget(one);
    await redlock.opened('q', { maxLeaseMs: MAX_LEASE_MS });
    expect(fencesOf(one)).toEqual(known.map(() => 0));
    await redlock.pass(MAX_LEASE_MS + 1_000);
    expect(fencesOf(one)).toEqual(known);
  });

  it('is told the fences that a process has seen as soon as that one finds it, also when all nodes forgot', async () => {
    await busyProcess();
    const known = fencesOf(redlock.servers[0]!);
    redlock.servers.forEach(forget);
    await redlock.pass(MAX_LEASE_MS / 2);
    expect(redlock.servers.map(fencesOf)).toEqual(redlock.servers.map(() => known));
  });

  it('is asked for its vote in one request after a minute, because it was greeted meanwhile', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 61_000 });
    const [one] = redlock.servers as [SimServer];
    await ask(member, 'a', 'p.1');
    one.put('{lock}:e', 'nothing');
    await ask(member, 'a', 'p.2');
    await redlock.pass(62_000);
    const before = one.commands;
    await ask(member, 'a', 'p.3');
    expect(one.commands - before).toBe(2); // its vote, and the release
  });
});

describe('A new node that an operator lets in', () => {
  it('votes from then on, though no fence is told to it, unless it forgot once more since it was greeted', async () => {
    redlock = new SimulatedRedlock(3, false);
    const [server] = redlock.servers as [SimServer];
    const way = redlock.wayTo(server);
    const { clock } = redlock;
    const around = {
      ...USUAL_OPTIONS, clock, process: 'operator', maxLeaseMs: 0, keys: KEYS, outages: new NodeOutages(1, clock, () => {}), servers: new KnownServers<NodeLink>(),
      news: { contended() {}, turn() {}, taken() {} }, connected: () => {}, unchecked: true,
    };
    const node = new RedlockNode(byIoredis(SimClient.for(() => way, { host: server.name })), around);
    const greeted = async (): Promise<Memory> => {
      await redlock.pass(1_000);
      return redlock.runUntil(node.memory.greet(new Map()));
    };
    const admit = (memory: Memory): Promise<boolean> => redlock.runUntil(node.memory.admit(memory, []));
    await redlock.runUntil(node.memory.greet(new Map()).catch(() => undefined)); // it makes the connection
    const memory = await greeted();
    expect(memory).toMatchObject({ whole: false, hasVoted: false });
    await redlock.pass(20);
    expect(await admit(memory)).toBe(true);
    expect(await greeted()).toMatchObject({ whole: true, hasVoted: true });
    forget(server);
    await redlock.pass(1_000);
    expect([await admit(memory), (await greeted()).whole]).toEqual([false, false]);
    node.close();
  });
});
