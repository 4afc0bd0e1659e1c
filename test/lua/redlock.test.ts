/** The scripts of a Redlock node on a real server: every code they return, and what makes a node stay out. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { NodeScripts, type VoteArguments } from '../support/node-scripts.js';

const MAX_LEASE_MS = 300;
let node: NodeScripts;
beforeAll(async () => {
  node = await NodeScripts.start(MAX_LEASE_MS);
});
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

  it('returns 1 with a fence that leaves half of all fences to count on, however high the proposal', async () => {
    node.runId = String((await node.greet())[2]); // as every caller does that has met the server
    const [code, , fence] = await node.vote('a', 'p.1/1', { proposal: Number.MAX_SAFE_INTEGER });
    node.runId = undefined;
    expect([code, fence]).toEqual([1, 2 ** 52 + 1]);
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

describe('The line of those who wait', () => {
  const marks = (): Promise<string | null> => node.client.get(node.keys.nodeSpotOf('a').marksKey);
  /** A vote of another process; it waits unless a test says otherwise. */
  const asks = async (process: string, how: VoteArguments = {}): Promise<number | string> => (await node.vote('a', `${process}.1/${++attempt}`, { process, waitedMs: 0, ...how }))[0]!;
  let attempt = 0;

  it('has a mark of each process that was refused and waits, first who has waited longest', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q', { waitedMs: 10 });
    await asks('r', { waitedMs: 5_000 });
    await asks('s', { waitedMs: -1 });
    expect((await marks())!.split('\n').map((line) => line.split(' ')[4])).toEqual(['r', 'q']);
  });

  it('has a process where it says that it stands, whatever it said before: an older mark may be that of a wait that has ended', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q', { waitedMs: 3_000 });
    await asks('r', { waitedMs: 1_000 });
    await asks('q', { waitedMs: 3_000 });
    expect((await marks())!.split('\n').map((line) => line.split(' ')[4])).toEqual(['q', 'r']);
    await asks('q', { waitedMs: 0 });
    expect((await marks())!.split('\n').map((line) => line.split(' ')[4])).toEqual(['r', 'q']);
  });

  it('has a process that is served at its end, with what it waits for in the other mode', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q', { mode: 'r', waitedMs: 5_000 });
    await asks('q', { waitedMs: 5_000 });
    await asks('r', { waitedMs: 1_000 });
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'q.1/9', { process: 'q', waitedMs: 5_000 })).at(-1)).toBe('r');
    expect((await marks())!.split('\n').map((line) => line.split(' ').slice(3).join(' '))).toEqual(['w r', 'r q']);
  });

  it('is told to the holder in its vote: who has waited longest', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q');
    await asks('r');
    await node.release('a', 'p.1/1');
    expect(await node.vote('a', 'q.1/9', { process: 'q', waitedMs: 0 })).toEqual([1, expect.any(Number), expect.any(Number), 5_000, 1, 0, 'r']);
  });

  it('keeps a lock that is given back for who has waited longest, whoever else asks', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q');
    await asks('r');
    await node.release('a', 'p.1/1');
    expect(await node.vote('a', 'p.2/1', { waitedMs: 0 })).toEqual([0, expect.any(Number), -1]);
    expect(await asks('r')).toBe(0);
    expect(await asks('q')).toBe(1);
  });

  it('gives the turn to the process that the holder names, when that waits here, so that all nodes agree', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q');
    await asks('r');
    await node.release('a', 'p.1/1', { next: 'r' });
    expect(await asks('q')).toBe(0);
    expect(await asks('r')).toBe(1);
  });

  it('passes over a process that does not come within its patience, once and for all', async () => {
    await node.vote('a', 'p.1/1');
    await asks('dead', { patienceMs: 30 });
    await asks('r');
    await node.release('a', 'p.1/1');
    await eventually(async () => expect(await asks('r')).toBe(1), 800); // before the mark would have ended by itself
    expect(await marks()).toBeNull();
  });

  it('loses the mark of a process that does not ask any more', async () => {
    await node.vote('a', 'p.1/1', { leaseMs: 60_000 });
    await asks('dead', { waitedMs: 5_000 });
    await eventually(async () => {
      expect(await asks('r')).toBe(0);
      expect(await marks()).not.toContain('dead');
    });
  });

  it('loses the mark of a process that wants the lock no more, and calls the next one', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q');
    await asks('r');
    await node.release('a', 'p.1/1');
    await node.release('a', '-', { process: 'q', waitedMs: -1 });
    expect(await asks('r')).toBe(1);
  });

  it('has a process back in its place whose vote came to nothing', async () => {
    await node.vote('a', 'q.1/1', { process: 'q', waitedMs: 500 });
    await asks('r');
    await node.release('a', 'q.1/1', { abandoned: true, process: 'q', waitedMs: 500 });
    expect(await asks('r')).toBe(0);
    expect(await asks('q')).toBe(1);
  });

  it('is passed by who has the lock on other nodes already, and loses no mark to it', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q', { waitedMs: 5_000 });
    await asks('h', { waitedMs: 10 });
    await node.release('a', 'p.1/1');
    expect(await asks('h', { waitedMs: -2 })).toBe(1);
    expect((await marks())!.split('\n').map((line) => line.split(' ')[4])).toEqual(['q', 'h']);
    expect(await asks('g', { waitedMs: -2 })).toBe(0);
  });

  it('loses no mark to another request of the same process: one that reads, or one that only tries', async () => {
    await node.vote('a', 'p.1/1', { mode: 'r' });
    await asks('q', { waitedMs: 500 });
    await asks('q', { waitedMs: -1 });
    await asks('q', { mode: 'r', waitedMs: -1 });
    expect(await asks('q', { mode: 'r' })).toBe(1);
    await node.release('a', '-', { process: 'q', mode: 'read', waitedMs: 0 });
    expect((await marks())!.split('\n').map((line) => line.split(' ').slice(3).join(' '))).toEqual(['w q', 'r q']);
  });

  it('lets readers in beside readers that wait, and not beside a writer that has waited longer', async () => {
    await node.vote('a', 'p.1/1', { mode: 'r' });
    expect(await asks('q', { mode: 'r' })).toBe(1);
    expect(await asks('w')).toBe(0);
    expect(await asks('r', { mode: 'r' })).toBe(0);
  });

  it('is of no concern to the owner of the present hold', async () => {
    await node.vote('a', 'p.1/1', { owner: 'saga' });
    await asks('q');
    expect(await asks('p', { owner: 'saga' })).toBe(1);
  });

  it('does not grow with the number of processes', async () => {
    await node.vote('a', 'p.1/1');
    for (let n = 0; n < 40; n++) await asks(`q${n}`, { waitedMs: n });
    expect((await marks())!.split('\n')).toHaveLength(32);
  });
});

describe('Where another program has written under a key of a lock', () => {
  const refusal = ['refused', expect.stringContaining('WRONGTYPE')];
  beforeEach(async () => {
    node.runId = String((await node.greet())[2]);
    const { client, keys } = node;
    await client.sadd(keys.lock('list'), 'x');
    await client.sadd(keys.fence(keys.groupOf('fence')), 'x');
  });
  afterEach(() => void (node.runId = undefined));

  it('only the votes for that lock are refused, with the words of the server', async () => {
    const granted = [1, expect.any(Number), expect.any(Number), 5_000, 1, 0];
    expect(await node.voteTogether(['a', 'list', 'fence', 'b'], 'p.1/1')).toEqual([granted, refusal, refusal, granted]);
    expect(await node.vote('list', 'p.1/1')).toEqual(refusal);
  });

  it('only what is given back of that lock is refused, with the words of the server', async () => {
    await node.vote('a', 'p.1/1');
    expect(await node.releaseTogether(['a', 'list', 'b'], 'p.1/1')).toEqual([1, refusal, 0]);
    expect(await node.release('list', 'p.1/1')).toEqual(refusal);
  });
});

describe('A message of a node', () => {
  it('ends with the encoded key of the lock, after whom it is for and who began to wait', async () => {
    const { client, keys } = node;
    const listener = client.duplicate();
    const heard: string[] = [];
    listener.on('message', (_channel, message) => heard.push(message));
    await listener.subscribe(keys.channel('p'), keys.channel('q'));
    await node.vote('{a} b', 'p.1/1');
    await node.vote('{a} b', 'q.1/1', { process: 'q', waitedMs: 0 });
    await node.release('{a} b', 'p.1/1');
    await eventually(() => expect(heard).toEqual(['w p.1/1 q %7Ba%7D b', 't q %7Ba%7D b']));
    listener.disconnect();
  });
});

describe('A vote on the incarnation of a server that the caller knows', () => {
  it('does not ask the server who it is, and any other does', async () => {
    const infos = async (): Promise<number> => Number(/cmdstat_info:calls=(\d+)/.exec(await node.client.info('commandstats'))?.[1] ?? 0);
    node.runId = String((await node.greet())[2]);
    const before = await infos();
    await node.vote('a', 'p.1/1');
    expect(await infos()).toBe(before + 1); // the question before this one
    node.runId = '0'.repeat(40);
    await node.vote('a', 'p.1/1');
    expect(await infos()).toBe(before + 3);
    node.runId = undefined;
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
    expect(await node.greet(new Map([[7, 5_000]]))).toEqual([1, 0, expect.stringMatching(/^\w{40}$/), expect.any(Number), expect.any(Number), 1]);
    expect(await node.client.get(node.keys.fence(7))).toBeNull();
  });

  it('tells of a node whether it ever voted, also when it was restarted with its data since, and of a new one that it did not', async () => {
    const hasVoted = async () => ((await node.greet()) as unknown[])[5];
    expect(await hasVoted()).toBe(1);
    await node.client.set(node.epochKey, `${'0'.repeat(40)} 1 1`);
    expect(await hasVoted()).toBe(1);
    await node.client.set(node.epochKey, `${'1'.repeat(40)} 1 2`);
    expect(await hasVoted()).toBe(1);
    await node.client.flushall();
    expect(await hasVoted()).toBe(0);
    expect(await hasVoted()).toBe(0);
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
