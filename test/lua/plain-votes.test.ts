/** What nearly every vote is: a plain request for a free lock, to a node that remembers, by a caller that knows its server. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { NodeScripts } from '../support/node-scripts.js';
import { forAll } from '../support/started.js';

const PROPOSAL = 1_795_237_393_715_000;
const node = forAll(() => NodeScripts.start());
beforeEach(async () => {
  await node.client.flushall();
  await node.makeWhole();
  node.known = await node.memoryOf('a');
  await node.vote('a', 'p.0/1', { proposal: PROPOSAL - 1 });
  await node.release('a', 'p.0/1');
});

const lockText = (): Promise<string | null> => node.client.get(node.keys.lock('a'));
const lastFence = async (): Promise<string | undefined> => (await node.record('a'))?.split(' ')[0];

/** The calls of these commands, those inside scripts among them. */
async function callsOf(act: () => Promise<unknown>): Promise<Record<string, number>> {
  await node.client.config('RESETSTAT');
  await act();
  const stats = await node.client.info('commandstats');
  return Object.fromEntries([...stats.matchAll(/cmdstat_(get|set|del|time|info):calls=(\d+)/g)].map(([, command, calls]) => [command!, Number(calls)]));
}

describe('A plain vote', () => {
  it('is granted with the time of the node alone: the fence is the proposal', async () => {
    const before = await node.now();
    const now = Number(await node.vote('a', 'p.1/1', { proposal: PROPOSAL }));
    expect(now).toBeGreaterThanOrEqual(before);
    expect(await lockText()).toBe(`w00 ${now + 5_000} p.1/1 ${PROPOSAL} 1 0 - -`);
    expect(await lastFence()).toBe(String(PROPOSAL));
  });

  it('costs the node four calls, and giving it back two', async () => {
    expect(await callsOf(() => node.vote('a', 'p.1/1', { proposal: PROPOSAL }))).toEqual({ time: 1, get: 1, set: 2 });
    expect(await callsOf(() => node.release('a', 'p.1/1'))).toEqual({ get: 1, del: 1 });
  });

  it('that is asked for again is the same vote, not prolonged', async () => {
    const now = Number(await node.vote('a', 'p.1/1', { proposal: PROPOSAL }));
    const [code, later, fence, leftMs] = (await node.vote('a', 'p.1/1', { proposal: PROPOSAL, leaseMs: 60_000 })) as number[];
    expect([code, fence, later! + leftMs!]).toEqual([1, PROPOSAL, now + 5_000]);
  });

  it('leaves the last fence and the lock as they are when somebody has the lock', async () => {
    await node.vote('a', 'p.1/1', { proposal: PROPOSAL });
    const present = await lockText();
    expect(await node.vote('a', 'q.1/1', { proposal: PROPOSAL + 1 })).toEqual([0, expect.any(Number), expect.any(Number)]);
    expect([await lockText(), await lastFence()]).toEqual([present, String(PROPOSAL)]);
  });

  it('has a fence above the last one where the proposal is not', async () => {
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL - 1 }))[2]).toBe(PROPOSAL);
  });

  it('is not granted by a node that lost its record, or in which another server stands', async () => {
    const record = await node.client.getdel(node.keys.spotOf('a').fenceKey);
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL }))[0]).toBe(4);
    await node.client.set(node.keys.spotOf('a').fenceKey, record!.replace(/ \w+/, ` ${'0'.repeat(16)}`));
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL }))[0]).toBe(4);
  });

  it('is not taken back by an id that begins or ends like its own, nor from whoever has the lock by now', async () => {
    await node.vote('a', 'p.1/12', { proposal: PROPOSAL });
    const text = await lockText();
    for (const id of ['p.1/1', 'p.1/123', 'q.1/12', '1/12']) expect(await node.release('a', id)).toBe(0);
    expect(await lockText()).toBe(text);
    expect(await node.release('a', 'p.1/12')).toBe(1);
    await node.vote('a', 'q.1/1', { proposal: PROPOSAL + 1 });
    expect(await node.release('a', 'p.1/12')).toBe(0);
    expect(await lockText()).toMatch(/ q\.1\/1 /);
  });

  it('is lost when its lease ended before it was given back by a caller who doubts that', async () => {
    const now = Number(await node.vote('a', 'p.1/1', { proposal: PROPOSAL, leaseMs: 20 }));
    await eventually(async () => expect(await node.now()).toBeGreaterThan(now + 20));
    expect(await node.release('a', 'p.1/1', { mayBeOver: true })).toBe(0);
  });

  it('after its time does nothing', async () => {
    expect(await node.vote('a', 'p.1/1', { proposal: PROPOSAL, notAfter: (await node.now()) - 1 })).toEqual([3, expect.any(Number)]);
    expect(await lockText()).toBeNull();
  });
});
