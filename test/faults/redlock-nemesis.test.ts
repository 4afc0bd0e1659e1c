/**
 * The whole library on a Redlock while its nodes are killed, restarted empty, flushed and frozen at random, never more than a
 * minority at once: no two calls at work together, fences that rise, and every call served or told in time.
 */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { delay, systemClock } from '../../lib/core/port/clock.js';
import type { Lease } from '../../lib/core/port/lease.js';
import { LockService } from '../../lib/lock.service.js';
import { eventually } from '../support/eventually.js';
import { startMasters, type RedisServer } from '../support/redis-server.js';
import { admitAll, openRedlock, votes } from '../support/redlock-store.js';

const PROCESSES = 3;
const CALLERS = 4;
const MAX_LEASE_MS = 600;
const LEASE_MS = 400;
const WAIT_MS = 5_000;

let masters: RedisServer[];
let services: LockService[];
beforeEach(async () => {
  masters = await startMasters(5);
  await admitAll(masters);
  services = [];
  for (let n = 0; n < PROCESSES; n++) {
    const process = `p${n}`;
    const store = await openRedlock(masters, process, { maxLeaseMs: MAX_LEASE_MS, commandTimeoutMs: 500 });
    const service = new LockService({ store, process, maxLeaseMs: MAX_LEASE_MS, leaseMs: LEASE_MS, waitMs: WAIT_MS, commandTimeoutMs: 500 });
    await service.open();
    services.push(service);
  }
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.close()));
  await Promise.all(masters.map((master) => master.stop()));
});

/** A guarded resource that notices who trusts a lease while another one does, and who comes with an old fence. */
class Resource {
  readonly complaints: string[] = [];
  private inside: { readonly who: string; readonly lease: Lease } | undefined;
  private lastFence = 0;

  async visit(who: string, lease: Lease): Promise<void> {
    // On one clock: a process that was not let run may be late to leave, but it does not trust its lease any more.
    if (lease.remainingMs <= 0) return;
    const { inside } = this;
    if (inside !== undefined && inside.lease.remainingMs > 0) this.complaints.push(`${who} with ${lease.fence} found ${inside.who} with ${inside.lease.fence}`);
    if (lease.fence <= this.lastFence) this.complaints.push(`${who} came with ${lease.fence} after ${this.lastFence}`);
    this.lastFence = Math.max(this.lastFence, lease.fence);
    const visit = { who, lease };
    this.inside = visit;
    const until = systemClock.now() + 5 + 25 * Math.random();
    while (systemClock.now() < until && lease.remainingMs > 10) await delay(systemClock, 3);
    if (this.inside === visit) this.inside = undefined;
  }
}

/** Mulberry32: the same seed does the same things to the same nodes. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Hurts one node after another; the next one only when the last may vote again. */
async function tormentNodes(random: () => number, until: number): Promise<string[]> {
  const done: string[] = [];
  const faults: readonly [string, (node: RedisServer) => Promise<unknown>][] = [
    ['restart', (node) => node.restart({ keepData: false })],
    ['kill', async (node) => {
      await node.kill();
      await delay(systemClock, 300 * random());
      await node.start();
    }],
    ['flush', (node) => node.command('FLUSHALL')],
    ['freeze', async (node) => {
      await node.pause();
      await delay(systemClock, 800 * random());
      await node.resume();
    }],
  ];
  while (systemClock.now() < until) {
    const at = Math.floor(random() * masters.length);
    const [name, fault] = faults[Math.floor(random() * faults.length)]!;
    done.push(`${name} ${at}`);
    await fault(masters[at]!);
    await eventually(async () => expect(await votes(masters[at]!)).toBe(true));
  }
  return done;
}

describe('A Redlock whose nodes fail one after another', () => {
  it.each([1, 2])('lets nobody work beside another, and serves everybody (seed %i)', async (seed) => {
    const resource = new Resource();
    const until = systemClock.now() + 6_000;
    const failures: unknown[] = [];
    let served = 0;
    const caller = async (service: LockService, who: string): Promise<void> => {
      while (systemClock.now() < until) {
        const asked = systemClock.now();
        try {
          await service.withLock('order:1', async (lease) => {
            await resource.visit(who, lease);
            served++;
          });
        } catch (error) {
          failures.push((error as { code?: string }).code ?? error);
        }
        expect(systemClock.now() - asked).toBeLessThan(WAIT_MS + 1_500);
      }
    };
    const [faults] = await Promise.all([
      tormentNodes(randomOf(seed), until),
      ...services.flatMap((service, n) => Array.from({ length: CALLERS }, (_, m) => caller(service, `p${n}/${m}`))),
    ]);
    expect({ faults, complaints: resource.complaints }).toEqual({ faults, complaints: [] });
    // A hold may lose its lease with the second node that forgets it, but it is told and the others go on.
    expect(failures.filter((code) => code !== 'LOCK_LOST' && code !== 'LOCK_TIMEOUT')).toEqual([]);
    expect(served).toBeGreaterThan(20);
    expect(failures.length).toBeLessThan(served / 4);
    const standing = async (): Promise<number> => (await Promise.all(masters.map((master) => master.command('KEYS', '*:l:order:1') as Promise<string[]>))).flat().length;
    await eventually(async () => expect(await standing()).toBe(0));
  });
});
