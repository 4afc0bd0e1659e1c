/** What is taken back on which node, on simulated masters: at a release, a loss, a second request, and when an answer never came. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Ballot } from '../../../lib/stores/redlock/ballot.js';
import type { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import { acquire, release } from '../../../lib/stores/wire/lua.generated.js';
import type { SimServer } from '../../simulation/sim-server.js';
import { holdsUp, RedlockRequests } from '../../support/redlock-requests.js';
import { remembers, simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock();
const requests = new RedlockRequests(redlock);
let one: SimServer;
let two: SimServer;
let three: SimServer;
let mine: RedlockMember;
let theirs: RedlockMember;
beforeEach(async () => {
  [one, two, three] = redlock.servers as [SimServer, SimServer, SimServer];
  [mine, theirs] = [await redlock.opened('p'), await redlock.opened('q')];
});

/** How many ballots are remembered, of requests that do not wait and of those that do. */
const sizes = (store: RedlockStore): number[] => {
  const all = [...(store as unknown as { ballots: Map<string, Ballot> }).ballots.values()];
  const waiting = all.filter(({ waits }) => waits).length;
  return [all.length - waiting, waiting];
};
/** Takes the lock away on the first two masters alone. */
const takenAwayOnTwo = async (): Promise<void> => {
  theirs.ways[2]!.silence('keeps');
  expect(await redlock.runUntil(theirs.store.forceRelease('k'))).toBe(true);
};

describe('A release', () => {
  it('is not sent to a node that refused the lease, and its word counts as one', async () => {
    one.flush();
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(50);
    const asked = await requests.commandsOf(() => requests.release(mine, 'p.1').then(() => redlock.pass(20)));
    expect(asked).toEqual([0, 1, 1]);
    await requests.granted(mine, 'p.2', { leaseMs: 30_000 });
    three.freeze();
    const error = await requests.failure(mine.store.release({ key: 'k', id: 'p.2' }));
    expect(error.nodes.map(({ reason }) => reason)).toEqual(['lost', 'released', expect.stringMatching(/^no answer/)]);
  });

  it('that got lost on its way to a node is repeated there until it is answered', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    const way = mine.ways[0]!;
    way.silence('loses');
    expect(await requests.release(mine, 'p.1')).toBe('released');
    way.silence('no');
    way.cut();
    await redlock.pass(3_000);
    expect(requests.standing()).toEqual([]);
    expect(await requests.commandsOf(() => redlock.pass(2_000))).toEqual([0, 0, 0]);
  });

  it('that overtakes the renewal of a node that forgot leaves nothing there', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    one.flush();
    mine.ways[0]!.faults.shortestMs = mine.ways[0]!.faults.longestMs = 20;
    expect((await redlock.runUntil(requests.renew(mine, 'p.1', 30_000))).kind).toBe('renewed');
    expect(await requests.release(mine, 'p.1')).toBe('released');
    await redlock.pass(1_000);
    expect(requests.standing()).toEqual([]);
  });

  it('that is answered is sent once', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    expect(await requests.commandsOf(() => requests.release(mine, 'p.1').then(() => redlock.pass(2_000)))).toEqual([1, 1, 1]);
  });

  it('takes back a vote as well that reaches its node only after the release', async () => {
    const arrives = holdsUp(three, acquire);
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    mine.ways[2]!.cut();
    await redlock.pass(500);
    expect(await requests.release(mine, 'p.1')).toBe('released');
    await redlock.pass(5);
    arrives();
    expect(requests.standing()).toEqual(['redis3']);
    await redlock.pass(500);
    expect(requests.standing()).toEqual([]);
  });

  it('S5: takes back a vote that is sent again behind it, because its node does not know the script any more', async () => {
    await requests.granted(mine, 'p.0');
    await requests.release(mine, 'p.0');
    await redlock.pass(20);
    Object.assign(mine.ways[2]!.faults, { shortestMs: 20, longestMs: 20 });
    (Reflect.get(three, 'scripts') as Map<string, string>).delete(acquire.sha1);
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    expect(await requests.release(mine, 'p.1')).toBe('released');
    await redlock.pass(70);
    expect(requests.standing()).toEqual(['redis3']);
    await redlock.pass(500);
    expect(requests.standing()).toEqual([]);
  });
});

describe('The mark of a request that waits', () => {
  it('stands on every node when the votes were split, also on those that had granted the lock', async () => {
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    three.flush();
    remembers(three);
    expect((await requests.ask(mine, 'p.1', { queue: true })).kind).toBe('busy');
    await redlock.pass(20);
    expect(redlock.servers.map((server) => server.keys().filter((name) => name.endsWith(':m:k')).length)).toEqual([1, 1, 1]);
  });

  it('goes from a node that refused it when a quorum of others has granted the lock: it is the mark of a wait that has ended', async () => {
    const hasMarks = (): boolean => three.keys().some((name) => name.endsWith(':m:k'));
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    const arrives = holdsUp(three, release);
    await requests.release(theirs, 'q.1');
    // Its refusal comes after the grant.
    Object.assign(mine.ways[2]!.faults, { shortestMs: 10, longestMs: 10 });
    await requests.granted(mine, 'p.1', { queue: true, leaseMs: 30_000 });
    await redlock.pass(15);
    expect(hasMarks()).toBe(true);
    arrives();
    await redlock.pass(50);
    expect(hasMarks()).toBe(false);
  });
});

describe('A lease that is lost', () => {
  it('is taken back on the nodes that still have it', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await takenAwayOnTwo();
    expect(requests.standing()).toEqual(['redis3']);
    expect((await requests.renew(mine, 'p.1', 30_000)).kind).toBe('lost');
    await redlock.pass(20);
    expect(requests.standing()).toEqual([]);
  });

  it('is taken back where it stands when its request is made again and granted anew', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await takenAwayOnTwo();
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    await requests.release(mine, 'p.1');
    await redlock.pass(20);
    expect(requests.standing()).toEqual([]);
  });

  it('is granted anew to a request that is made again when its time is over, for which no node could renew it in time', async () => {
    const { fence } = await requests.granted(mine, 'p.1', { leaseMs: 500 });
    await redlock.pass(600);
    expect((await requests.granted(mine, 'p.1', { leaseMs: 500 })).fence).toBeGreaterThan(fence);
  });

  it('and was not downgraded by a quorum is still one for writing where it stands', async () => {
    three.stop();
    await redlock.pass(500);
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    two.stop();
    two.start(false);
    three.start(true);
    remembers(three);
    await redlock.pass(2_000);
    expect(await redlock.runUntil(mine.store.downgrade({ key: 'k', id: 'p.1' }))).toBe('lost');
    await requests.renew(mine, 'p.1', 30_000);
    await redlock.pass(50);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    expect((await requests.granted(mine, 'p.1')).mode).toBe('write');
    expect(three.text([...three.keys()].find((key) => key.endsWith(':l:k'))!)).toMatch(/^w/);
  });
});

describe('A request that replaces a lease for which others wait', () => {
  const woken = (): string[] => {
    const ids: string[] = [];
    mine.store.onWake(({ kind, id }) => kind === 'ask' && ids.push(id));
    return ids;
  };

  it('sends no vote, which would be refused: the release has the nodes call it when its turn comes', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    expect((await requests.ask(theirs, 'q.1', { queue: true })).kind).toBe('busy');
    await redlock.pass(20);
    const ids = woken();
    const asked = await requests.commandsOf(async () => {
      expect(await requests.ask(mine, 'p.2', { replaces: 'p.1', queue: true })).toMatchObject({ kind: 'busy', replacedLost: false });
    });
    expect(asked).toEqual([1, 1, 1]);
    await requests.granted(theirs, 'q.1', { queue: true });
    expect(ids).toEqual([]);
    const arrives = holdsUp(three, release);
    const arrivesToo = holdsUp(two, release);
    void theirs.store.release({ key: 'k', id: 'q.1' }).catch(() => undefined);
    await redlock.pass(20);
    expect(ids).toEqual([]);
    arrives();
    arrivesToo();
    await redlock.pass(20);
    expect(ids).toEqual(['p.2']);
    await requests.granted(mine, 'p.2', { queue: true });
    await redlock.pass(20);
    expect(three.keys().filter((name) => name.endsWith(':m:k'))).toEqual([]);
  });

  it('is called at once when they have gone meanwhile', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await requests.ask(theirs, 'q.1', { queue: true });
    await redlock.pass(1_600);
    const ids = woken();
    const outcome = await requests.ask(mine, 'p.2', { replaces: 'p.1', queue: true });
    await redlock.pass(20);
    // A quorum may call before the last node has answered: then the answer itself says that it should ask at once.
    const asksAtOnce = outcome.kind === 'busy' && outcome.retryInMs === 0;
    expect(asksAtOnce ? ['p.2'] : ids).toEqual(['p.2']);
  });
});

describe('A request that is open', () => {
  it('is not ended by a renewal of its id, which is lost', async () => {
    const outcome = mine.store.acquire(requests.request('p.1'));
    const renewal = mine.store.renew({ key: 'k', id: 'p.1', leaseMs: 3_000, minReplicas: 0 });
    expect(await renewal).toEqual({ kind: 'lost' });
    expect((await redlock.runUntil(outcome)).kind).toBe('granted');
  });

  it('and was released meanwhile does not wait any more', async () => {
    await requests.granted(theirs, 'q.1');
    const outcome = mine.store.acquire(requests.request('p.1', { queue: true }));
    void mine.store.release({ key: 'k', id: 'p.1' }).catch(() => undefined);
    expect((await redlock.runUntil(outcome)).kind).toBe('busy');
    expect(sizes(mine.store)).toEqual([0, 0]);
  });

  it('that a forced release overtakes is granted, is told so, and is lost with its first renewal', async () => {
    mine.ways[2]!.faults.shortestMs = mine.ways[2]!.faults.longestMs = 150;
    mine.ways[1]!.faults.shortestMs = mine.ways[1]!.faults.longestMs = 100;
    const kinds: string[] = [];
    mine.store.onWake(({ kind }) => kinds.push(kind));
    const outcome = mine.store.acquire(requests.request('p.1', { leaseMs: 30_000 }));
    // Both votes are given, and one answer is still on its way.
    await redlock.pass(110);
    expect(requests.standing()).toEqual(['redis1', 'redis2']);
    for (const way of mine.ways) way.faults.shortestMs = way.faults.longestMs = 1;
    await takenAwayOnTwo();
    expect((await redlock.runUntil(outcome)).kind).toBe('granted');
    expect(kinds).toContain('lost');
    expect((await requests.renew(mine, 'p.1', 30_000)).kind).toBe('lost');
    await redlock.pass(300);
    expect(requests.standing()).toEqual([]);
  });

  it('and is refused is forgotten at once, though the lease that it replaces may not be released yet', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    await redlock.pass(20);
    for (const server of redlock.servers) holdsUp(server, release);
    const outcome = mine.store.acquire(requests.request('p.2', { replaces: 'p.1' }));
    await redlock.pass(20);
    expect(sizes(mine.store)).toEqual([0, 0]);
    expect(await redlock.runUntil(outcome)).toMatchObject({ kind: 'busy', replacedLost: false });
  });

  it('and fails goes on waiting until it is released, and leaves nothing in memory then', async () => {
    one.stop();
    two.stop();
    await redlock.pass(500);
    await requests.failure(mine.store.acquire(requests.request('p.1', { queue: true })));
    expect(sizes(mine.store)).toEqual([0, 1]);
    expect(await requests.release(mine, 'p.1')).toBe('lost');
    expect(sizes(mine.store)).toEqual([0, 0]);
  });
});

describe('A request that is made again', () => {
  it('while its lease is released is not granted, though the nodes still knew the lease', async () => {
    await requests.granted(mine, 'p.1');
    await redlock.pass(20);
    const again = mine.store.acquire(requests.request('p.1'));
    const arrives = redlock.servers.map((server) => holdsUp(server, release));
    void mine.store.release({ key: 'k', id: 'p.1' }).catch(() => undefined);
    expect((await redlock.runUntil(again)).kind).toBe('busy');
    for (const arrive of arrives) arrive();
  });
});

describe('A process that is called', () => {
  it('has 500 ms to take its turn', async () => {
    const other = await redlock.opened('r');
    for (const way of [...mine.ways, ...theirs.ways, ...other.ways]) way.faults.shortestMs = way.faults.longestMs = 0.1;
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    expect((await requests.ask(mine, 'p.1', { queue: true })).kind).toBe('busy');
    await requests.release(theirs, 'q.1');
    await redlock.pass(497);
    expect((await requests.ask(other, 'r.1')).kind).toBe('busy');
    await redlock.pass(4);
    expect((await requests.ask(other, 'r.2')).kind).toBe('granted');
  });
});

describe('A forced release', () => {
  it('that named no fence is not simply made again when its outcome is unknown, and one that did is', async () => {
    one.stop();
    two.stop();
    await redlock.pass(500);
    expect(await requests.failure(mine.store.forceRelease('k'))).toMatchObject({ retryable: false });
    expect(await requests.failure(mine.store.forceRelease('k', 7))).toMatchObject({ retryable: true, message: expect.stringMatching(/It is safe to try again\.$/) });
  });
});

describe('A store that is closed', () => {
  it('has forgotten who waited, and has no timer for an open question', async () => {
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    await requests.ask(mine, 'p.1', { queue: true });
    expect(sizes(mine.store)).toEqual([0, 1]);
    await theirs.store.close();
    await mine.store.close();
    expect([...sizes(mine.store), redlock.pendingTimers]).toEqual([0, 0, 0]);
  });
});

describe('A request to a Redlock', () => {
  it('that is refused leaves nothing of it, neither here nor on the nodes', async () => {
    await requests.granted(theirs, 'q.1');
    expect((await requests.ask(mine, 'p.1')).kind).toBe('busy');
    expect(sizes(mine.store)).toEqual([0, 0]);
    expect(await requests.release(mine, 'p.1')).toBe('lost');
    await requests.release(theirs, 'q.1');
    await redlock.pass(50);
    expect(requests.standing()).toEqual([]);
  });

  it('that waits is remembered until it is granted or given up, and no other is', async () => {
    await requests.granted(theirs, 'q.1');
    await requests.ask(mine, 'p.1', { queue: true });
    await requests.ask(mine, 'p.2', { queue: true });
    expect(sizes(mine.store)).toEqual([0, 2]);
    expect(await requests.release(mine, 'p.2')).toBe('lost');
    await requests.release(theirs, 'q.1');
    await requests.granted(mine, 'p.1', { queue: true });
    expect(sizes(mine.store)).toEqual([1, 0]);
    await requests.release(mine, 'p.1');
    expect(sizes(mine.store)).toEqual([0, 0]);
  });

  it('L1: that reads does not pass the writers that wait, whatever its process waits for besides', async () => {
    await requests.granted(theirs, 'q.1', { mode: 'read' });
    for (const [member, id] of [[mine, 'p.1'], [theirs, 'q.2']] as const) {
      await redlock.pass(150);
      expect((await requests.ask(member, id, { queue: true })).kind).toBe('busy');
    }
    for (const [member, id] of [[mine, 'p.2'], [theirs, 'q.3']] as const) {
      expect((await requests.ask(member, id, { mode: 'read', queue: true })).kind).toBe('busy');
    }
    await requests.release(theirs, 'q.1');
    await requests.granted(mine, 'p.1', { queue: true });
    expect((await requests.ask(mine, 'p.2', { mode: 'read', queue: true })).kind).toBe('busy');
    await requests.release(mine, 'p.1');
    await requests.granted(theirs, 'q.2', { queue: true });
  });

  it('to a store that was closed, or for replicas, is refused', async () => {
    await expect(mine.store.acquire(requests.request('p.1', { minReplicas: 1 }))).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    await requests.granted(mine, 'p.1');
    await mine.store.close();
    await expect(mine.store.acquire(requests.request('p.2'))).rejects.toThrow('after the store was closed');
    expect(sizes(mine.store)).toEqual([0, 0]);
  });
});

describe('A lease of a Redlock', () => {
  it('S3: is lost when it had ended before its release, though its record is still on the nodes', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 300 });
    await redlock.pass(350);
    expect(await requests.release(mine, 'p.1')).toBe('lost');
  });

  it('of which a node lost its connection is released there when that is back', async () => {
    await requests.granted(mine, 'p.1', { leaseMs: 30_000 });
    mine.ways[0]!.silence('keeps');
    expect(await requests.release(mine, 'p.1')).toBe('released');
    expect(requests.standing()).toEqual(['redis1']);
    mine.ways[0]!.silence('no');
    await redlock.pass(2_000);
    expect(requests.standing()).toEqual([]);
  });

  it('that a node granted too late is taken back there', async () => {
    mine.ways[2]!.faults.shortestMs = mine.ways[2]!.faults.longestMs = 120;
    await requests.granted(mine, 'p.1');
    expect(await requests.release(mine, 'p.1')).toBe('released');
    await redlock.pass(2_000);
    expect(requests.standing()).toEqual([]);
  });
});
