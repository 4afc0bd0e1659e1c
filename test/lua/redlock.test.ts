/** The scripts of a Redlock node on a real server: every code they return, and what makes a node stay out. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { NodeScripts } from '../support/node-scripts.js';

const MAX_LEASE_MS = 300;
let node: NodeScripts;
beforeAll(async () => {
  node = await NodeScripts.start(MAX_LEASE_MS);
}, 60_000);
afterAll(() => node.server.stop());
beforeEach(async () => {
  await node.client.flushall();
  await node.makeWhole();
});

/** The node's quarantine has passed, but nobody told it the fences. */
async function quarantinePasses(): Promise<void> {
  await eventually(async () => expect((await node.greet())[1]).toBe(0));
}

describe('vote.lua', () => {
  it('returns 1 with the proposal as fence where the node knows of no greater one, and keeps it', async () => {
    expect(await node.vote('a', 'p.1/1', { proposal: 1_795_237_393_715_000 })).toEqual([1, expect.any(Number), 1_795_237_393_715_000, 5_000, 1, 0]);
    await node.release('a', 'p.1/1');
    const [, , fence] = await node.vote('a', 'p.2/1', { proposal: 1 });
    expect(fence).toBe(1_795_237_393_715_001);
  });

  it('returns 1 with the first of the fences it reserved', async () => {
    await node.vote('a', 'p.1/1', { proposal: 100, fences: 40 });
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1', { proposal: 100 }))[2]).toBe(140);
  });

  it('returns 1 once more for the same ballot: the same vote, not prolonged', async () => {
    const [, now, fence, left] = (await node.vote('a', 'p.1/1')) as number[];
    const again = (await node.vote('a', 'p.1/1', { leaseMs: 60_000 })) as number[];
    expect(again[2]).toBe(fence);
    expect(again[1]! + again[3]!).toBe(now! + left!);
  });

  it('returns 1 to readers beside readers, each with a fence of its own, and 0 to a writer beside them', async () => {
    const [first] = [(await node.vote('a', 'p.1/1', { mode: 'r' })) as number[]];
    const second = (await node.vote('a', 'p.2/1', { mode: 'r' })) as number[];
    expect([first![0], second[0], second[4]]).toEqual([1, 1, 0]);
    expect(second[2]).toBeGreaterThan(first![2]!);
    expect((await node.vote('a', 'p.3/1'))[0]).toBe(0);
  });

  it("returns 1 with the fence of the owner's hold, marked as shared", async () => {
    const [, , fence] = await node.vote('a', 'p.1/1', { owner: 'saga' });
    expect(await node.vote('a', 'p.2/1', { owner: 'saga', mode: 'r' })).toEqual([1, expect.any(Number), fence, 5_000, 1, 1]);
  });

  it('returns 0 with the time until the present hold ends, minHoldMs included', async () => {
    await node.vote('a', 'p.1/1', { leaseMs: 1_000, minHoldMs: 4_000 });
    await node.release('a', 'p.1/1');
    const [code, , left] = (await node.vote('a', 'p.2/1')) as number[];
    expect(code).toBe(0);
    expect(left).toBeGreaterThan(3_000);
    expect(left).toBeLessThanOrEqual(4_001);
  });

  it('returns 2 to an owner who reads and wants to write', async () => {
    await node.vote('a', 'p.1/1', { owner: 'saga', mode: 'r' });
    expect(await node.vote('a', 'p.2/1', { owner: 'saga' })).toEqual([2, expect.any(Number)]);
  });

  it('returns 3 after the time of the request, and does nothing', async () => {
    expect(await node.vote('a', 'p.1/1', { notAfter: (await node.now()) - 1 })).toEqual([3, expect.any(Number)]);
    expect((await node.vote('a', 'p.2/1', { notAfter: (await node.now()) + 5_000 }))[0]).toBe(1);
  });

  it('returns 4 after the epoch was lost, whatever else it remembers', async () => {
    await node.client.del(node.epochKey);
    // The time counts from here, and is the longest lease in whole.
    expect(await node.vote('a', 'p.1/1')).toEqual([4, expect.any(Number), MAX_LEASE_MS + 1]);
  });

  it('returns 4 when another server stands in its place, and counts from when that is noticed', async () => {
    await node.client.set(node.epochKey, `${'0'.repeat(40)} ${(await node.now()) - 3_600_000} 1`);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(4);
  });

  it('returns 4 for longer when the server clock is set back meanwhile', async () => {
    const [, , runId] = await node.greet();
    await node.client.set(node.epochKey, `${runId} ${(await node.now()) + 3_600_000} 0`);
    const [code, , left] = (await node.vote('a', 'p.1/1')) as number[];
    expect(code).toBe(4);
    expect(left).toBeLessThanOrEqual(MAX_LEASE_MS + 1);
  });

  it('returns 5 after the quarantine until it is admitted', async () => {
    await node.client.del(node.epochKey);
    await quarantinePasses();
    expect(await node.vote('a', 'p.1/1')).toEqual([5, expect.any(Number)]);
  });
});

describe('raise-fence.lua', () => {
  it('returns 1 and gives the ballot the fence, and later ones greater ones', async () => {
    await node.vote('a', 'p.1/1', { proposal: 10 });
    expect(await node.raiseFence('a', 'p.1/1', 500, 3)).toBe(1);
    expect((await node.vote('a', 'p.1/1'))[2]).toBe(500);
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(503);
  });

  it('returns 0 when the ballot is gone, and raises the counter all the same', async () => {
    expect(await node.raiseFence('a', 'p.1/1', 500)).toBe(0);
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(501);
  });

  it('gives a lower fence to a ballot without lowering the counter', async () => {
    await node.vote('a', 'p.1/1', { proposal: 900 });
    await node.raiseFence('a', 'p.1/1', 500);
    expect((await node.vote('a', 'p.1/1'))[2]).toBe(500);
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(901);
  });
});

describe('greet.lua', () => {
  it('tells that a node remembers, and leaves its counters alone then', async () => {
    expect(await node.greet(new Map([[7, 5_000]]))).toEqual([1, 0, expect.stringMatching(/^\w{40}$/), expect.any(Number), expect.any(Number)]);
    expect(await node.client.get(node.keys.fence(7))).toBeNull();
  });

  it('begins the quarantine of a node that forgot, and takes the fences that are told', async () => {
    await node.client.flushall();
    const [whole, left] = (await node.greet(new Map([[7, 5_000], [8, 0]]))) as number[];
    expect(whole).toBe(0);
    expect(left).toBeGreaterThan(0);
    await node.greet(new Map([[7, 4_000]]));
    expect(await node.client.get(node.keys.fence(7))).toBe('5000');
  });
});

describe('survey.lua', () => {
  it('tells every counter, 0 where there is none, and whether to believe them', async () => {
    await node.raiseFence('a', '-', 1_795_237_393_715_000);
    const group = node.keys.groupOf('a');
    expect(await node.survey([group, (group + 1) % 256])).toEqual([1, '1795237393715000', '0']);
    await node.client.del(node.epochKey);
    expect((await node.survey([group]))[0]).toBe(0);
  });
});

describe('admit.lua', () => {
  it('returns 0 while the node may have forgotten leases that have not ended', async () => {
    await node.client.flushall();
    const [, , runId, since] = await node.greet();
    expect(await node.admit(String(runId), Number(since))).toBe(0);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(4);
  });

  it('returns 0 when the node forgot once more after it was greeted', async () => {
    await node.client.flushall();
    const [, , runId, since] = await node.greet();
    await eventually(async () => expect(await node.now()).toBeGreaterThan(Number(since)));
    await node.client.flushall();
    await quarantinePasses();
    expect(await node.admit(String(runId), Number(since))).toBe(0);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(5);
  });

  it('returns 1 after the quarantine, and the next fence is above those that were told', async () => {
    await node.client.flushall();
    await quarantinePasses();
    const [, , runId, since] = await node.greet();
    const told = new Map([[node.keys.groupOf('a'), 70_000]]);
    expect(await node.admit(String(runId), Number(since), told)).toBe(1);
    expect(await node.admit(String(runId), Number(since), told)).toBe(1);
    expect((await node.vote('a', 'p.1/1', { proposal: 5 }))[2]).toBe(70_001);
  });
});
