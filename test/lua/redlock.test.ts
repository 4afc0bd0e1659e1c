/** The scripts of a Redlock node on a real server: every code they return, and what makes a node stay out. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { NEVER } from '../../lib/stores/redis/boot-probe.js';
import { type BuiltCall, downgradeCall, forceReleaseCall, readForceRelease, type ReplyItems } from '../../lib/stores/wire/lua.generated.js';
import { UNTIL_TOLD_MS } from '../../lib/stores/wire/redis-keys.js';
import { eventually } from '../support/eventually.js';
import { NodeScripts, type VoteArguments } from '../support/node-scripts.js';
import { forAll } from '../support/started.js';

const MAX_LEASE_MS = 300;
const node = forAll(() => NodeScripts.start());
beforeEach(async () => {
  await node.client.flushall();
  await node.makeWhole();
});

describe('A vote', () => {
  it('returns 1 with the proposal as fence where the node knows of no greater one, and keeps it', async () => {
    expect(await node.vote('a', 'p.1/1', { proposal: 1_795_237_393_715_000 })).toEqual([1, expect.any(Number), 1_795_237_393_715_000, 1, 1, expect.any(Number), 0, await node.memoryOf('a')]);
    await node.release('a', 'p.1/1');
    const [, , fence] = await node.vote('a', 'p.2/1', { proposal: 1 });
    expect(fence).toBe(1_795_237_393_715_001);
  });

  it('returns 1 with a fence that leaves half of all fences to count on, however high the proposal', async () => {
    node.known = await node.memoryOf('a'); // as every caller does that has met the server
    const [code, , fence] = await node.vote('a', 'p.1/1', { proposal: Number.MAX_SAFE_INTEGER });
    node.known = undefined;
    expect([code, fence]).toEqual([1, 2 ** 52 + 1]);
  });

  it('returns 1 with the first of the fences it reserved', async () => {
    await node.vote('a', 'p.1/1', { proposal: 100, fences: 40 });
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1', { proposal: 100 }))[2]).toBe(140);
  });

  it('returns 7 after the record of its group was lost, and from then on', async () => {
    await node.client.del(node.keys.spotOf('a').fenceKey);
    for (const id of ['p.1/1', 'p.2/1']) expect(await node.vote('a', id)).toEqual([7, expect.any(Number), expect.any(Number)]);
  });

  it('returns 7 when another server stands in its place, and when its memory was put back to an earlier one', async () => {
    await node.client.set(node.keys.spotOf('a').fenceKey, `7 ${'0'.repeat(16)}:${(await node.now()) - 3_600_000}`);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(7);
    await node.makeWhole(1_700_000_000_000);
    node.known = `${node.runId.slice(0, 16)}:1700000000001`;
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(7);
    node.known = undefined;
  });
});

describe('The line of those who wait', () => {
  const marks = (): Promise<string | null> => node.marks('a');
  /** The requests that have a mark, in their order. */
  const line = async (): Promise<string[]> => (await marks())!.split('\n').map((mark) => mark.split(' ')[3]!);
  /** A vote for a request of another process; it waits unless a test says otherwise. */
  const asks = async (id: string, how: VoteArguments = {}): Promise<number | string> => (await node.vote('a', `${id}/${++attempt}`, { waitedMs: 0, ...how }))[0]!;
  let attempt = 0;

  it('has a mark of each request that was refused and waits, first who has waited longest', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1', { waitedMs: 10 });
    await asks('r.1', { waitedMs: 5_000 });
    await asks('s.1', { waitedMs: -1 });
    expect(await line()).toEqual(['r.1', 'q.1']);
  });

  it('has a request where it says that it stands, whatever it said before: an older mark may be that of a wait that has ended', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1', { waitedMs: 3_000 });
    await asks('r.1', { waitedMs: 1_000 });
    await asks('q.1', { waitedMs: 3_000 });
    expect(await line()).toEqual(['q.1', 'r.1']);
    await asks('q.1', { waitedMs: 0 });
    expect(await line()).toEqual(['r.1', 'q.1']);
  });

  it('L1: has a writer where it was, whatever else its process is granted or gives back: readers of that process do not pass it', async () => {
    await node.vote('a', 'q.1/1', { mode: 'r' });
    await asks('q.2', { waitedMs: 500 });
    expect(await asks('q.3', { mode: 'r' })).toBe(3);
    await asks('r.1', { waitedMs: 300 });
    await node.release('a', 'q.1/1');
    expect(await line()).toEqual(['q.2', 'r.1', 'q.3']);
    expect(await asks('q.3', { mode: 'r' })).toBe(3);
    expect(await asks('q.2', { waitedMs: 500 })).toBe(1);
  });

  it('has a request that waits from now on behind all others, where its process gives the lock back for it', async () => {
    await node.vote('a', 'q.1/1');
    await asks('r.1', { waitedMs: 1_000 });
    expect(await node.release('a', 'q.1/1', { mayBeOver: true, mark: 'w,0,q.2' })).toBe(1);
    expect(await line()).toEqual(['r.1', 'q.2']);
    expect(await asks('r.1', { waitedMs: 1_000 })).toBe(1);
  });

  it('has a request where it says so before its vote is taken back: where it was granted it had no mark', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1', { waitedMs: 100 });
    await node.release('a', 'p.1', { mark: 'w,5000,p.1' });
    await node.release('a', 'p.1/1', { abandoned: true });
    expect(await line()).toEqual(['p.1', 'q.1']);
    expect(await asks('p.1', { waitedMs: 5_000 })).toBe(1);
  });

  it('is told to the holder in its vote', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1');
    await asks('r.1');
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'q.1/9', { waitedMs: 0 }))[6]).toBe(1);
  });

  it('keeps a lock that is given back for who has waited longest, whoever else asks', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1');
    await asks('r.1');
    await node.release('a', 'p.1/1');
    const [code, , leftMs] = await node.vote('a', 'p.2/1', { waitedMs: 0 });
    expect([code, Number(leftMs) > 0, Number(leftMs) <= 501]).toEqual([3, true, true]);
    expect(await asks('r.1')).toBe(3);
    expect(await asks('q.1')).toBe(1);
  });

  it('passes over a request that does not come in time, once and for all', async () => {
    await node.vote('a', 'p.1/1');
    await asks('dead.1');
    await asks('r.1');
    await node.release('a', 'p.1/1');
    await eventually(async () => expect(await asks('r.1')).toBe(1), 1_200); // before the mark would have ended by itself
    expect(await marks()).toBeNull();
  });

  it('loses the mark of a request that does not ask any more', async () => {
    await node.vote('a', 'p.1/1', { leaseMs: 60_000 });
    await asks('dead.1', { waitedMs: 5_000 });
    await eventually(async () => {
      expect(await asks('r.1')).toBe(3);
      expect(await marks()).not.toContain('dead');
    });
  });

  it('loses the mark of a request that waits no more, and calls the next one', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1');
    await asks('r.1');
    await node.release('a', 'p.1/1');
    await node.release('a', 'q.1');
    expect(await asks('r.1')).toBe(1);
  });

  it('is passed by who has the lock on other nodes already, and loses no mark to it', async () => {
    await node.vote('a', 'p.1/1');
    await asks('q.1', { waitedMs: 5_000 });
    await node.release('a', 'p.1/1');
    expect((await node.bringBack('a', 'h.1/1', 70))[0]).toBe(1);
    expect(await line()).toEqual(['q.1']);
    expect((await node.bringBack('a', 'g.1/1', 71))[0]).toBe(0);
    await node.release('a', 'h.1/1');
    expect(await asks('r.1')).toBe(3);
    expect(await asks('q.1', { waitedMs: 5_000 })).toBe(1);
  });

  it('loses no mark to another request of the same process: one that reads, or one that only tries', async () => {
    await node.vote('a', 'p.1/1', { mode: 'r' });
    await asks('q.1', { waitedMs: 500 });
    await asks('q.2', { waitedMs: -1 });
    await asks('q.3', { mode: 'r', waitedMs: -1 });
    expect(await asks('q.4', { mode: 'r', waitedMs: 700 })).toBe(1);
    expect(await line()).toEqual(['q.1']);
  });

  it('lets readers in beside readers that wait, and not beside a writer that has waited longer', async () => {
    await node.vote('a', 'p.1/1', { mode: 'r' });
    expect(await asks('q.1', { mode: 'r' })).toBe(1);
    expect(await asks('w.1')).toBe(3);
    expect(await asks('r.1', { mode: 'r' })).toBe(3);
  });

  it('is of no concern to the owner of the present hold', async () => {
    await node.vote('a', 'p.1/1', { owner: 'saga' });
    await asks('q.1');
    expect(await asks('p.1', { owner: 'saga' })).toBe(1);
  });

  it('does not grow with the number of requests', async () => {
    await node.vote('a', 'p.1/1');
    for (let n = 0; n < 40; n++) await asks(`q${n}.1`, { waitedMs: n });
    expect((await marks())!.split('\n')).toHaveLength(32);
  });
});

describe('Where another program has written under a key of a lock', () => {
  const refusal = ['refused', expect.stringContaining('WRONGTYPE')];
  beforeEach(async () => {
    const { client, keys } = node;
    await client.sadd(keys.lock('list'), 'x');
    await client.del(keys.spotOf('fence').fenceKey);
    await client.sadd(keys.spotOf('fence').fenceKey, 'x');
  });

  it('only the votes for that lock are refused, with the words of the server', async () => {
    const granted = [1, expect.any(Number), expect.any(Number), 1, 1, expect.any(Number), 0, expect.any(String)];
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
  it('ends with the encoded key of the lock, after whom it is for', async () => {
    const { client, keys } = node;
    const listener = client.duplicate();
    const heard: string[] = [];
    listener.on('message', (_channel: string, message: string) => heard.push(String(message)));
    await listener.subscribe(keys.channel('p'), keys.channel('q'));
    await node.vote('{a} b', 'p.1/1');
    await node.vote('{a} b', 'q.1/1', { waitedMs: 0 });
    await node.release('{a} b', 'p.1/1');
    await eventually(() => expect(heard).toEqual(['c p.1/1 %7Ba%7D b', 't q.1 %7Ba%7D b']));
    listener.disconnect();
  });
});

describe('A vote on the memory of a server that the caller knows', () => {
  it('does not ask the server who it is, and any other does', async () => {
    const infos = async (): Promise<number> => Number(/cmdstat_info:calls=(\d+)/.exec(await node.client.info('commandstats'))?.[1] ?? 0);
    node.known = await node.memoryOf('a');
    const before = await infos();
    await node.vote('a', 'p.1/1');
    expect(await infos()).toBe(before + 1); // the question before this one
    node.known = undefined;
    await node.vote('a', 'p.1/1');
    expect(await infos()).toBe(before + 4); // two of the script, and the question before
  });
});

describe('bring-back.lua on a node of a Redlock', () => {
  it('gives a ballot a higher fence, and later ones greater ones', async () => {
    await node.vote('a', 'p.1/1', { proposal: 10 });
    expect((await node.bringBack('a', 'p.1/1', 500, 3))[0]).toBe(1);
    expect((await node.vote('a', 'p.1/1'))[2]).toBe(500);
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(503);
  });

  it('gives a ballot the lower fence of a hold of its owner that it shares elsewhere, under which a forced release finds it', async () => {
    await node.vote('a', 'p.1/1', { proposal: 500 });
    expect((await node.bringBack('a', 'p.1/1', 300))[0]).toBe(1);
    expect((await node.vote('a', 'p.1/1'))[2]).toBe(300);
    await node.release('a', 'p.1/1');
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(501);
  });

  it('raises the last fence also when the lock is somebody else’s, and never lowers it', async () => {
    await node.vote('a', 'q.1/1', { proposal: 100 });
    expect((await node.bringBack('a', 'p.1/1', 500))[0]).toBe(0);
    expect((await node.bringBack('a', 'p.1/1', 300))[0]).toBe(0);
    await node.release('a', 'q.1/1');
    expect((await node.vote('a', 'p.2/1'))[2]).toBe(501);
  });

  it('works while the node is closed, so that a lease is there when it votes again', async () => {
    await node.client.flushall();
    expect((await node.bringBack('a', 'p.1/1', 500))[0]).toBe(1);
    expect((await node.vote('a', 'p.2/1'))[0]).toBe(7);
  });

  it('notes of nobody that it was heard of: on such a node nobody tells of holders', async () => {
    await node.client.flushall();
    await node.bringBack('a', 'p.1/1', 500);
    await node.release('a', 'p.2/1');
    expect(await node.client.keys('*%heard')).toEqual([]);
  });
});

describe('recall.lua on a node', () => {
  it('tells the last fence, and that the node votes', async () => {
    await node.bringBack('a', 'p.1/1', 1_795_237_393_715_000);
    expect(await node.recall('a')).toMatchObject({ closed: false, memory: expect.stringMatching(/^\w{16}:\d+$/), fence: '1795237393715000' });
    expect((await node.recall('b')).fence).toBe('1');
  });

  it('tells of a node whether it ever voted, also when it was restarted with its data since, and of a new one that it did not', async () => {
    await node.client.flushall();
    expect([(await node.recall('a')).fence, (await node.recall('a')).fence]).toEqual(['0', '0']);
    await node.client.set(node.keys.spotOf('a').fenceKey, `1 ${'0'.repeat(16)}:1700000000000`);
    expect([(await node.recall('a')).fence, (await node.recall('a')).fence]).toEqual(['1', '1']);
  });

  it('closes what the node forgot, tells since when, and takes the fence that it is told', async () => {
    await node.client.flushall();
    const before = await node.now();
    const { closed, since, fence } = await node.recall('a');
    expect([closed, fence]).toEqual([true, '0']);
    expect(since).toBeGreaterThanOrEqual(before);
    expect(await node.recall('a', 5_000)).toMatchObject({ closed: true, since, fence: '5000' });
    expect(await node.recall('a', 4_000)).toMatchObject({ closed: true, fence: '5000' });
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(7);
  });
});

describe('admit.lua', () => {
  const forgets = async (): Promise<number> => {
    await node.client.flushall();
    return (await node.recall('a')).since;
  };
  const passes = (since: number): Promise<void> => eventually(async () => expect(await node.now()).toBeGreaterThan(since + MAX_LEASE_MS));

  it('returns 0 while the node may have forgotten leases that have not ended, and takes the fences that are told', async () => {
    const since = await forgets();
    expect(await node.admit(since, MAX_LEASE_MS, { a: 5_000 })).toBe(0);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(7);
    expect((await node.record('a'))!.split(' ')[0]).toBe('5000');
  });

  it('returns 0 until the whole of the longest lease has passed since the node forgot', async () => {
    await forgets();
    const [fence, memory, ...closed] = (await node.record('a'))!.split(' ');
    const since = (await node.now()) - 50_000;
    await node.client.set(node.keys.spotOf('a').fenceKey, [fence, memory!.slice(0, 17) + since, ...closed].join(' '));
    expect(await node.admit(since, 60_000, { a: 70 })).toBe(0);
    expect(await node.admit(since, 40_000, { a: 70 })).toBe(1);
  });

  it('returns 0 when the node forgot once more since', async () => {
    const since = await forgets();
    await eventually(async () => expect(await node.now()).toBeGreaterThan(since));
    await passes(await forgets());
    expect(await node.admit(since, MAX_LEASE_MS, { a: 70 })).toBe(0);
    expect((await node.vote('a', 'p.1/1'))[0]).toBe(7);
  });

  it('leaves a node that voted known by its fences, also where none was told', async () => {
    const since = await forgets();
    await passes(since);
    expect(await node.admit(since, MAX_LEASE_MS, { a: 0 })).toBe(1);
    expect((await node.recall('a')).fence).toBe('1');
  });

  it('returns 1 after the longest lease, and the next fence is above those that were told', async () => {
    const since = await forgets();
    await passes(since);
    expect(await node.admit(since, MAX_LEASE_MS, { a: 70_000 })).toBe(1);
    expect(await node.admit(since, MAX_LEASE_MS, { a: 70_000 })).toBe(1);
    expect((await node.vote('a', 'p.1/1', { proposal: 5 }))[2]).toBe(70_001);
  });
});

const PROPOSAL = 1_795_237_393_715_000;
const lockText = (): Promise<string | null> => node.client.get(node.keys.lock('a'));
const lastFence = async (): Promise<string | undefined> => (await node.record('a'))?.split(' ')[0];

/** The calls of these commands, those inside scripts among them. */
async function callsOf(act: () => Promise<unknown>): Promise<Record<string, number>> {
  await node.client.config('RESETSTAT');
  await act();
  const stats = await node.client.info('commandstats');
  return Object.fromEntries([...stats.matchAll(/cmdstat_(get|set|del|time|info):calls=(\d+)/g)].map(([, command, calls]) => [command!, Number(calls)]));
}

/** What nearly every vote is: a plain request for a free lock, to a node that remembers, by a caller that knows its server. */
describe('A plain vote', () => {
  const grantedAt = (reply: unknown): number => Math.floor(Number(reply) / 1000);

  beforeEach(async () => {
    node.known = await node.memoryOf('a');
    await node.vote('a', 'p.0/1', { proposal: PROPOSAL - 1 });
    await node.release('a', 'p.0/1');
  });

  it('is granted with the time of the node alone: the fence is the proposal', async () => {
    const before = await node.now();
    const now = grantedAt(await node.vote('a', 'p.1/1', { proposal: PROPOSAL }));
    expect(now).toBeGreaterThanOrEqual(before);
    expect(await lockText()).toBe(`w00 ${now + 5_000} p.1/1 ${PROPOSAL} 1 0 - -`);
    expect(await lastFence()).toBe(String(PROPOSAL));
  });

  it('costs the node four calls, and giving it back two', async () => {
    expect(await callsOf(() => node.vote('a', 'p.1/1', { proposal: PROPOSAL }))).toEqual({ time: 1, get: 2, set: 2 });
    expect(await callsOf(() => node.release('a', 'p.1/1'))).toEqual({ get: 1, del: 1 });
  });

  it('that is asked for again is the same vote, not prolonged', async () => {
    const now = grantedAt(await node.vote('a', 'p.1/1', { proposal: PROPOSAL }));
    const [code, , fence, , , end] = (await node.vote('a', 'p.1/1', { proposal: PROPOSAL, leaseMs: 60_000 })) as number[];
    expect([code, fence, end]).toEqual([1, PROPOSAL, now + 5_000]);
  });

  it('leaves the last fence and the lock as they are when somebody has the lock', async () => {
    await node.vote('a', 'p.1/1', { proposal: PROPOSAL });
    const present = await lockText();
    expect(await node.vote('a', 'q.1/1', { proposal: PROPOSAL + 1 })).toEqual([3, expect.any(Number), expect.any(Number), '-']);
    expect([await lockText(), await lastFence()]).toEqual([present, String(PROPOSAL)]);
  });

  it('has a fence above the last one where the proposal is not', async () => {
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL - 1 }))[2]).toBe(PROPOSAL);
  });

  it('is not granted by a node that lost its record, or in which another server stands', async () => {
    const record = await node.client.getdel(node.keys.spotOf('a').fenceKey);
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL }))[0]).toBe(7);
    await node.client.set(node.keys.spotOf('a').fenceKey, record!.replace(/ \w+/, ` ${'0'.repeat(16)}`));
    expect((await node.vote('a', 'p.1/1', { proposal: PROPOSAL }))[0]).toBe(7);
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
    const now = grantedAt(await node.vote('a', 'p.1/1', { proposal: PROPOSAL, leaseMs: 20 }));
    await eventually(async () => expect(await node.now()).toBeGreaterThan(now + 20));
    expect(await node.release('a', 'p.1/1', { mayBeOver: true })).toBe(0);
  });

  it('after its time does nothing', async () => {
    expect(await node.vote('a', 'p.1/1', { proposal: PROPOSAL, notAfter: (await node.now()) - 1 })).toEqual([5, expect.any(Number)]);
    expect(await lockText()).toBeNull();
  });
});

/** Higher than any before, so that a vote is granted in the shortest way if it can be. */
let proposal = 2_000_000_000_000_000;
const WAITS = { waitedMs: 1_000 } as const;

function run({ script, keys, args }: BuiltCall): Promise<unknown> {
  return node.client.eval(script.source, keys.length, ...keys, ...args);
}

async function forceRelease(key: string, fence?: number, notAfter = NEVER): Promise<string> {
  return readForceRelease((await run(forceReleaseCall(node.keys.spotOf(key), { fence, notAfter, floor: 0, recoveryMs: UNTIL_TOLD_MS }))) as ReplyItems).kind;
}

/** After the lock was given back: another process comes, and then the request that waits. */
async function expectTurnOf(id: string, key: string): Promise<void> {
  proposal += 10;
  expect(await node.vote(key, 'late.1', { proposal })).toEqual([3, expect.any(Number), expect.any(Number), '-']);
  expect((await node.vote(key, `${id}/2`, WAITS))[0]).toBe(1);
}

/** downgrade.lua and force-release.lua where there is no queue, but marks of those who wait. */
describe('On a node of a Redlock, who has waited longest is the next to have the lock', () => {
  beforeEach(async () => {
    node.known = await node.memoryOf('n1');
  });

  it('when a writer was downgraded before it gave the lock back', async () => {
    await node.vote('n1', 'p.1', { proposal });
    expect((await node.vote('n1', 'q.1', WAITS))[0]).toBe(3);
    expect(await run(downgradeCall(node.keys.spotOf('n1'), { id: 'p.1', floor: 0, recoveryMs: UNTIL_TOLD_MS }))).toBe(1);
    expect(await node.release('n1', 'p.1')).toBe(1);
    await expectTurnOf('q.1', 'n1');
  });

  it('when one of several readers lost the lock to an operator before the others gave it back', async () => {
    const [, , fence] = await node.vote('n2', 'p.1', { mode: 'r', proposal: proposal + 5, fences: 2 });
    await node.vote('n2', 's.1', { mode: 'r' });
    expect((await node.vote('n2', 'q.1', WAITS))[0]).toBe(3);
    expect(await forceRelease('n2', Number(fence), 1)).toBe('late');
    expect(await forceRelease('n2', Number(fence))).toBe('taken');
    expect(await node.release('n2', 's.1')).toBe(1);
    await expectTurnOf('q.1', 'n2');
  });

  it('also when an operator takes the lock away that is kept for it, which nobody holds', async () => {
    await node.vote('n3', 'p.1', { proposal });
    await node.vote('n3', 'q.1', WAITS);
    expect(await node.release('n3', 'p.1')).toBe(1);
    expect(await forceRelease('n3')).toBe('none');
    await expectTurnOf('q.1', 'n3');
  });
});
