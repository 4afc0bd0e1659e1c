/** Two names of a Redlock that lead to one server: it has one vote, whenever that comes out. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome } from '../../../lib/core/port/lock-store.js';
import type { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startMasters, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock, untilUsable } from '../../support/redlock-store.js';

let masters: [RedisServer, RedisServer, RedisServer];
/** The addresses of the nodes, each of which leads to the master of its place unless a test says otherwise. */
let doors: [FlakyProxy, FlakyProxy, FlakyProxy];
let told: string[];
beforeEach(async () => {
  masters = (await startMasters(3)) as typeof masters;
  await admitAll(masters);
  doors = (await Promise.all(masters.map(({ port }) => startFlakyProxy(port)))) as typeof doors;
  told = [];
});
afterEach(async () => {
  await closeRedlocks();
  await Promise.all(doors.map((door) => door.stop()));
  await Promise.all(masters.map((master) => master.stop()));
});

const nameOf = ({ port }: FlakyProxy): string => `127.0.0.1:${port}`;

async function openBehindDoors(): Promise<RedlockStore> {
  const store = makeRedlock(doors.map(({ url }) => url), 'p', { report: ({ message }) => told.push(message), maxLeaseMs: 2_000 });
  await store.open();
  return store;
}

let requests = 0;
function ask(store: RedlockStore, id = `p.${++requests}`): Promise<AcquireOutcome> {
  const usual = { mode: 'write', leaseMs: 2_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  return store.acquire({ key: 'order:1', id, ...usual, notAfter: systemClock.now() + 2_000 });
}

/** Leads a node's address to the server that another node has already. */
async function misleads(door: FlakyProxy, to: RedisServer): Promise<void> {
  await door.cut();
  door.moveTo(to.port);
  await door.heal();
}

async function untilToldTwins(one: FlakyProxy, other: FlakyProxy): Promise<void> {
  await eventually(() => expect(told.filter((line) => line.includes(`${nameOf(one)} and ${nameOf(other)} are one server`))).toHaveLength(1));
}

/** A Redlock of three of which one server is out of reach, and another has two names, has no quorum. */
async function expectNoGrantByOneServer(store: RedlockStore): Promise<void> {
  await doors[1].cut();
  const refused = await ask(store).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'LOCK_STORE', retryable: true });
  expect((refused as { nodes: unknown[] }).nodes).toContainEqual({ node: nameOf(doors[2]), reason: `the same server as ${nameOf(doors[0])}` });
  await doors[1].heal();
}

describe('A node of a Redlock that is another name of a server that has its vote', () => {
  it('and was down at boot has no vote when it comes up', async () => {
    await doors[2].cut();
    const store = await openBehindDoors();
    await misleads(doors[2], masters[0]);
    await untilToldTwins(doors[0], doors[2]);
    await expectNoGrantByOneServer(store);
  });

  it('since its address leads elsewhere has no vote after it was connected anew', async () => {
    const store = await openBehindDoors();
    await untilUsable(store, 2_000);
    await misleads(doors[2], masters[0]);
    await untilToldTwins(doors[0], doors[2]);
    await expectNoGrantByOneServer(store);
  });

  it('gives nobody a majority beside a holder who has one', async () => {
    // The holder reaches the second and the third master; the other process reaches the first alone, by two names.
    const itsFirst = await startFlakyProxy(masters[0].port);
    const holder = makeRedlock([itsFirst.url, masters[1].url, masters[2].url], 'h', { maxLeaseMs: 2_000 });
    await holder.open();
    await itsFirst.cut();
    await doors[2].cut();
    const store = await openBehindDoors();
    await misleads(doors[2], masters[0]);
    await untilToldTwins(doors[0], doors[2]);
    await doors[1].cut();
    expect((await ask(holder, 'h.1')).kind).toBe('granted');
    await expect(ask(store)).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect((await holder.renew([{ key: 'order:1', id: 'h.1', leaseMs: 2_000, minReplicas: 0 }]))[0]!.kind).toBe('renewed');
  });

  it('votes when its address leads to a server of its own, though nothing ended its connection', async () => {
    await doors[2].cut();
    const store = await openBehindDoors();
    await misleads(doors[2], masters[0]);
    await untilToldTwins(doors[0], doors[2]);
    doors[2].moveTo(masters[2].port);
    await doors[1].cut();
    await eventually(async () => {
      const outcome = await ask(store, 'p.again');
      await store.release({ key: 'order:1', id: 'p.again' });
      expect(outcome.kind).toBe('granted');
    });
    await eventually(() => expect(told).toContainEqual(`Locks: ${nameOf(doors[2])} leads to a server of its own now.`));
  });

  it('takes the place of the other name when that one is gone', async () => {
    await doors[2].cut();
    const store = await openBehindDoors();
    await misleads(doors[2], masters[0]);
    await untilToldTwins(doors[0], doors[2]);
    await doors[0].cut();
    await untilUsable(store, 5_000);
  });
});

describe('A node that was restarted', () => {
  it('is a server of its own again, under its new run id', async () => {
    const store = await openBehindDoors();
    await masters[2].restart({ keepData: false });
    await eventually(() => expect(told).toContainEqual(`Locks: ${nameOf(doors[2])} votes again.`), 2_000 + 3_000);
    await doors[1].cut();
    await untilUsable(store, 2_000);
    expect(told.join('\n')).not.toMatch(/one server/);
  });
});
