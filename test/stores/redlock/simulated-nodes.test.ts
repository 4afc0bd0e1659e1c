/** A Redlock whose nodes are down, frozen, empty or misled, on simulated masters: who is granted what, what is taken back, and what is told. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireOutcome, AcquireRequest, Wake } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import type { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import { acquire, bringBack, recall } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { SimServer } from '../../simulation/sim-server.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { answersWith, holdsUp, RedlockRequests, refuses } from '../../support/redlock-requests.js';
import { type RedlockMember, remembers, simulatedRedlock, SimulatedRedlock } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock();
const requests = new RedlockRequests(redlock);

const request = (how: Partial<AcquireRequest> = {}): AcquireRequest => acquireRequest({ key: 'k', leaseMs: 3_000, queue: false, notAfter: redlock.clock.now() + 2_000, ...how });
const ask = (store: RedlockStore, how?: Partial<AcquireRequest>): Promise<AcquireOutcome> => redlock.runUntil(store.acquire(request(how)));
const messages = ({ told }: RedlockMember): string => told.map(({ message }) => message).join('\n');

describe('A Redlock that boots', () => {
  it.each([0, 40_000])('begins with a quorum, names the node that is missing, and has its vote when it comes, also after its own time to boot was over: %i ms later', async (laterMs) => {
    const [one, two, three] = redlock.servers as [SimulatedRedlock['servers'][0], SimulatedRedlock['servers'][0], SimulatedRedlock['servers'][0]];
    three.stop();
    const member = await redlock.opened('p');
    expect(member.store.summary).toMatchObject({ place: 'a Redlock of 3 nodes (redis1:6379, redis2:6379, redis3:6379; 2 decide)' });
    expect(member.told).toMatchObject([{ kind: 'boot', level: 'warning', message: expect.stringMatching(/^Locks: 1 of 3 Redlock nodes cannot be used now \(redis3:6379: .*\)\. The others are a quorum\.$/) }]);
    await ask(member.store, { id: 'p.held' });
    expect(requests.standing()).toEqual(['redis1', 'redis2']);
    await requests.release(member, 'p.held');
    await redlock.pass(laterMs);
    three.start(true);
    await redlock.pass(70_000);
    expect(messages(member)).toMatch(/redis3:6379/);
    one.stop();
    await redlock.pass(1_000);
    expect((await ask(member.store)).kind).toBe('granted');
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
    two.stop();
    await redlock.pass(1_000);
    const error = await requests.failure(ask(member.store));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true, key: 'k' });
    expect(error.nodes.map(({ node }) => node)).toEqual(['redis1:6379', 'redis2:6379', 'redis3:6379']);
    expect(messages(member)).toContain('which is no quorum');
  });

  it('does not begin without a quorum, and says of each node why', async () => {
    redlock.servers[0]!.stop();
    redlock.servers[2]!.stop();
    const { store } = redlock.member('p');
    const error = await requests.failure(store.open());
    expect(error.message).toMatch(/^Locks: no quorum of 3 nodes for the start \(redis1:6379: .+; redis2:6379: open; redis3:6379: .+\)\. It is safe to try again\.$/);
    expect(error.nodes.map(({ node }) => node)).toEqual(['redis1:6379', 'redis2:6379', 'redis3:6379']);
    await expect(store.acquire(request({ notAfter: Infinity }))).rejects.toMatchObject({ retryable: false });
  });

  it('does not begin when two of its nodes are one server', async () => {
    const { store, ways } = redlock.member('p');
    ways[2] = redlock.wayTo(redlock.servers[0]!);
    const error = await requests.failure(store.open());
    expect(error.message).toMatch(/^Locks: the Redlock nodes redis[13]:6379 and redis[13]:6379 are one server\. .* has no vote until it leads to a server of its own/);
    expect(error).toMatchObject({ retryable: false, nodes: [{ reason: expect.stringMatching(/^the same server as redis[13]:6379$/) }] });
  });

  it('does not begin beside processes that use an earlier wire format, and says which and what to do', async () => {
    redlock.servers[1]!.put('{lock}:format', 'version=3 groups=256 maxLeaseMs=60000');
    const error = await requests.failure(redlock.member('p').store.open());
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(error.message).toMatch(/found 'version=3 groups=256 maxLeaseMs=60000', this process has 'version=5 .*when no other process runs any more, delete the key \{lock\}:format/);
  });

  it('waits a moment for a node that is slow, and no longer', async () => {
    const slow = redlock.member('p');
    slow.ways[2]!.faults.shortestMs = slow.ways[2]!.faults.longestMs = 5;
    await redlock.runUntil(slow.store.open());
    expect(messages(slow)).toBe('');
    const late = redlock.member('q');
    late.ways[2]!.silence('keeps');
    const since = redlock.time.now;
    await redlock.runUntil(late.store.open());
    expect(messages(late)).toContain('1 of 3 Redlock nodes cannot be used now (redis3:6379: not connected yet)');
    expect(redlock.time.now - since).toBeLessThan(700);
    expect(redlock.time.now - since).toBeGreaterThanOrEqual(300);
  });

  it('has an odd number of nodes, three at least', () => {
    for (const nodes of [1, 2, 4]) expect(() => new SimulatedRedlock(nodes).member('p')).toThrow(`a Redlock needs an odd number of at least 3 independent masters, got ${nodes}.`);
    expect(redlock.member('p').store.capabilities).toEqual({ queue: false, replicas: false, permits: false });
  });
});

describe('A node whose address leads to the server of another one', () => {
  it('has no vote until it leads to a server of its own, and that is told once', async () => {
    const member = await redlock.opened('p');
    const own = member.ways[2]!;
    member.ways[2] = redlock.wayTo(redlock.servers[0]!);
    own.cut();
    await redlock.pass(5_000);
    expect(member.told.filter(({ message }) => message.includes('are one server. redis3:6379 has no vote'))).toHaveLength(1);
    redlock.servers[1]!.stop();
    await redlock.pass(500);
    const reasons: (string | undefined)[] = [];
    for (let tries = 0; tries < 20; tries += 1) {
      reasons.push((await requests.failure(ask(member.store))).nodes[2]!.reason);
      await redlock.pass(100);
    }
    // It is connected anew every half second.
    expect([...new Set(reasons)].sort()).toEqual(expect.arrayContaining(['the same server as redis1:6379']));
    await redlock.pass(3_000);
    member.ways[2] = redlock.wayTo(redlock.servers[2]!);
    await redlock.pass(5_000);
    expect((await ask(member.store)).kind).toBe('granted');
    expect(requests.standing()).toEqual(['redis1', 'redis3']);
  });
});

describe('Nodes that remember nothing', () => {
  it('grant nothing while a lease that they forgot may last, if all of them are new', async () => {
    for (const server of redlock.servers) server.flush();
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    const error = await requests.failure(ask(member.store));
    expect(error.nodes).toHaveLength(3);
    // Two of them decide; which answer first is up to the network.
    expect(error.nodes.map(({ reason }) => reason)).toContainEqual(expect.stringMatching(/^restarted or flushed, and stays out until what it may have forgotten has ended and/));
    await redlock.pass(3_500);
    await requests.failure(ask(member.store));
    await redlock.pass(2_000);
    expect((await ask(member.store)).kind).toBe('granted');
    await redlock.pass(1_000);
    expect(member.told.map(({ kind, level }) => `${kind.split(' ')[0]}, ${level}`).sort()).toEqual(['fences, warning', 'fences, warning', ...Array(3).fill('forgot, warning'), ...Array(3).fill('votes, info')]);
    expect(messages(member)).toMatch(/It grants nothing until .*The other nodes are a quorum and go on\..*With it there is no quorum left, and no lock can be granted until then\./s);
    expect(messages(member)).toContain('Locks: 3 of 3 Redlock nodes do not remember what they granted');
  });

  it('go on with higher fences when the others are a quorum, and vote again after that time', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    const before = await ask(member.store, { id: 'p.first' });
    await requests.release(member, 'p.first');
    redlock.servers[0]!.stop();
    redlock.servers[0]!.start(false);
    await redlock.pass(1_000);
    const after = await ask(member.store, { id: 'p.second' });
    expect([before.kind, after.kind]).toEqual(['granted', 'granted']);
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
    await requests.release(member, 'p.second');
    await redlock.pass(6_000);
    const third = await ask(member.store);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    const fences = [before, after, third].map((outcome) => (outcome.kind === 'granted' ? outcome.grant.fence : NaN));
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    expect(messages(member)).toContain('the Redlock node redis1:6379 is new, was restarted or flushed.');
    expect(messages(member)).toContain('Locks: redis1:6379 votes again.');
  });
});

describe('A lease', () => {
  it('is put back on a node that forgot it, and is free on all of them after its release', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    await ask(member.store, { id: 'p.held' });
    redlock.servers[0]!.stop();
    redlock.servers[0]!.start(false);
    for (let second = 0; second < 7; second += 1) {
      await redlock.pass(1_000);
      expect((await requests.renew(member, 'p.held')).kind).toBe('renewed');
    }
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    expect(await requests.release(member, 'p.held')).toBe('released');
    await redlock.pass(20);
    expect(requests.standing()).toEqual([]);
  });

  it('whose quorum is silent is in doubt, and lost when its time is over', async () => {
    const member = await redlock.opened('p');
    await ask(member.store, { id: 'p.held', leaseMs: 1_000 });
    for (const server of redlock.servers.slice(1)) server.freeze();
    expect(await requests.renew(member, 'p.held', 1_000)).toMatchObject({ kind: 'unknown', cause: { code: 'LOCK_STORE', retryable: true } });
    await redlock.pass(1_200);
    for (const server of redlock.servers) server.thaw();
    await redlock.pass(1_000);
    expect((await requests.renew(member, 'p.held', 1_000)).kind).toBe('lost');
    expect((await ask(member.store)).kind).toBe('granted');
  });

  it('that a forced release took away on a quorum is told as lost, by the word of two nodes', async () => {
    const [member, operator] = [await redlock.opened('p'), await redlock.opened('q')];
    const wakes: Wake[] = [];
    member.store.onWake((wake) => wakes.push(wake));
    await ask(member.store, { id: 'p.held' });
    expect(await redlock.runUntil(operator.store.forceRelease('k', 1))).toBe(false);
    expect(await redlock.runUntil(operator.store.forceRelease('k'))).toBe(true);
    await redlock.pass(10);
    expect(wakes).toContainEqual({ kind: 'lost', key: 'k', id: 'p.held' });
    expect((await requests.renew(member, 'p.held')).kind).toBe('lost');
    expect(await redlock.runUntil(operator.store.forceRelease('k'))).toBe(false);
  });

  it.each([['while its messages get through', false], ['without a message', true]])('S3: that a forced release took away on a quorum, but not on a node that was silent, is lost %s', async (_how, isCut) => {
    const [member, operator, next] = [await redlock.opened('p'), await redlock.opened('q'), await redlock.opened('r')];
    await ask(member.store, { id: 'p.held' });
    operator.ways[2]!.silence('loses');
    if (isCut) for (const way of member.ways) way.silence('loses');
    expect(await redlock.runUntil(operator.store.forceRelease('k'))).toBe(true);
    if (isCut) expect(requests.standing()).toEqual(['redis3']);
    for (const way of member.ways) way.silence('no');
    for (const way of member.ways) way.cut();
    await redlock.pass(500);
    expect((await requests.renew(member, 'p.held')).kind).toBe('lost');
    await redlock.pass(100);
    expect((await ask(next.store, { id: 'r.1' })).kind).toBe('granted');
    expect((await requests.renew(member, 'p.held')).kind).toBe('lost');
    expect((await requests.renew(next, 'r.1')).kind).toBe('renewed');
  });

  it('S3: is not given again to a node that let it be taken away, though a quorum has it: more may be about to let it go', async () => {
    const [member, operator] = [await redlock.opened('p'), await redlock.opened('q')];
    await ask(member.store, { id: 'p.held' });
    for (const way of operator.ways.slice(1)) way.silence('loses');
    await requests.failure(operator.store.forceRelease('k'));
    expect((await requests.renew(member, 'p.held')).kind).toBe('renewed');
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
  });

  it('comes back to a node that could not be reached for longer than the lease', async () => {
    const member = await redlock.opened('p');
    await ask(member.store, { id: 'p.held', leaseMs: 1_000 });
    const renewsFor3s = async (): Promise<void> => {
      for (let n = 0; n < 10; n += 1) {
        expect((await requests.renew(member, 'p.held', 1_000)).kind).toBe('renewed');
        await redlock.pass(300);
      }
    };
    member.ways[0]!.silence('loses');
    await renewsFor3s();
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
    member.ways[0]!.silence('no');
    member.ways[0]!.cut();
    await renewsFor3s();
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });

  it('is told as wanted by a request that waits, which is called when it is free', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    const [mine, theirs]: [Wake[], Wake[]] = [[], []];
    member.store.onWake((wake) => mine.push(wake));
    other.store.onWake((wake) => theirs.push(wake));
    await ask(member.store, { id: 'p.held' });
    expect((await ask(other.store, { id: 'q.1', queue: true })).kind).toBe('busy');
    await redlock.pass(10);
    expect(mine).toContainEqual({ kind: 'contended', key: 'k', id: 'p.held' });
    expect(await requests.renew(member, 'p.held')).toMatchObject({ kind: 'renewed', contended: true });
    await requests.release(member, 'p.held');
    await redlock.pass(10);
    expect(theirs).toEqual([{ kind: 'ask', key: 'k', id: 'q.1' }]);
    expect((await ask(member.store)).kind).toBe('busy');
    expect((await ask(other.store, { id: 'q.1', queue: true })).kind).toBe('granted');
  });

  it('L1: calls a request also when the calls overtake the answer that it has to wait', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    const wakes: Wake[] = [];
    other.store.onWake((wake) => wakes.push(wake));
    let overtaken = 0;
    for (let n = 0; n < 200; n++) {
      const [mine, theirs] = [`p.${n}`, `q.${n}`];
      await ask(member.store, { id: mine });
      const asked = other.store.acquire(request({ id: theirs, queue: true }));
      await requests.release(member, mine);
      const outcome = await redlock.runUntil(asked);
      if (outcome.kind === 'busy') {
        if (wakes.length > 0) overtaken++;
        await redlock.pass(20);
        expect(wakes.splice(0)).toContainEqual({ kind: 'ask', key: 'k', id: theirs });
        expect((await ask(other.store, { id: theirs, queue: true })).kind).toBe('granted');
      }
      await requests.release(other, theirs);
      await redlock.pass(20);
    }
    expect(overtaken).toBeGreaterThan(0);
  });

  it('of one who gave up waiting is kept for nobody', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    await ask(member.store, { id: 'p.held' });
    await ask(other.store, { id: 'q.1', queue: true });
    expect(await requests.release(other, 'q.1')).toBe('lost');
    await requests.release(member, 'p.held');
    expect((await ask(member.store)).kind).toBe('granted');
  });
});

describe('A vote that nobody heard of', () => {
  it('is taken back when its node answers again', async () => {
    const member = await redlock.opened('p');
    const holder = await redlock.opened('q');
    redlock.servers[2]!.freeze();
    await ask(holder.store, { id: 'q.1' });
    expect((await ask(member.store, { id: 'p.late' })).kind).toBe('busy');
    await requests.release(holder, 'q.1');
    redlock.servers[2]!.thaw();
    await redlock.pass(3_000);
    expect(requests.standing()).toEqual([]);
  });

  it('is taken back when its node can be reached again', async () => {
    const member = await redlock.opened('p');
    for (const way of member.ways.slice(0, 2)) way.silence('loses');
    await requests.failure(ask(member.store, { leaseMs: 30_000 }));
    await redlock.pass(20);
    expect(requests.standing()).toEqual([]);
    member.ways[2]!.silence('loses');
    await requests.failure(ask(member.store, { leaseMs: 30_000 }));
    for (const way of member.ways) way.silence('no');
    for (const way of member.ways) way.cut();
    await redlock.pass(5_000);
    expect(requests.standing()).toEqual([]);
    expect((await ask(member.store)).kind).toBe('granted');
  });
});

describe('A look at a lock', () => {
  it('shows a holder that a quorum knows, in spite of a silent node', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    const outcome = await ask(member.store, { id: 'p.held', label: 'nightly import', leaseMs: 30_000 });
    redlock.servers[0]!.freeze();
    await redlock.pass(100);
    const state = await redlock.runUntil(other.store.inspect('k'));
    expect(state).toMatchObject({ mode: 'write', waiters: [], holders: [{ id: 'p.held', label: 'nightly import', fence: outcome.kind === 'granted' && outcome.grant.fence }] });
    redlock.servers[1]!.freeze();
    const error = await requests.failure(other.store.inspect('k'));
    expect(error.message).toMatch(/^Lock 'k': no quorum of 3 nodes for an inspection/);
  });

  it('lists each lock once, also one that two nodes know', async () => {
    const member = await redlock.opened('p');
    await ask(member.store, { key: 'a' });
    redlock.servers[0]!.stop();
    await redlock.pass(500);
    await ask(member.store, { key: 'b' });
    const keys: string[] = [];
    const list = async (): Promise<void> => {
      for await (const { key } of member.store.list()) keys.push(key);
    };
    await redlock.runUntil(list());
    expect(keys.sort()).toEqual(['a', 'b']);
  });

  it('finds out whether locks can be had', async () => {
    const member = await redlock.opened('p');
    await redlock.runUntil(member.store.tryOut());
    for (const server of redlock.servers.slice(1)) server.stop();
    await redlock.pass(500);
    expect((await requests.failure(member.store.tryOut())).message).toMatch(/^Locks: no quorum of 3 nodes for a trial \(/);
  });
});

describe('A store that is closed', () => {
  it('leaves no timer and no connection behind, whatever its nodes are doing', async () => {
    const member = await redlock.opened('p');
    redlock.servers[0]!.stop();
    redlock.servers[1]!.freeze();
    await requests.failure(ask(member.store, { leaseMs: 30_000 }));
    await redlock.runUntil(member.store.close());
    await redlock.pass(3_000);
    expect(redlock.pendingTimers).toBe(0);
    expect(redlock.servers.flatMap((server) => [...server.sockets])).toEqual([]);
  });
});

describe('What five simulated nodes make of a request together', () => {
  const redlock = simulatedRedlock(5);
  const requests = new RedlockRequests(redlock);
  let member: RedlockMember;
  beforeEach(async () => void (member = await redlock.opened('p')));

  const answer: Record<string, (server: SimServer) => void> = {
    grants: () => undefined,
    busy: (server) => answersWith(server, acquire, [3, server.nowMs(), 3_000, '-']),
    'not its turn': (server) => answersWith(server, acquire, [3, server.nowMs(), -1, '-']),
    upgrade: (server) => answersWith(server, acquire, [4, server.nowMs()]),
    closed: (server) => answersWith(server, acquire, [7, server.nowMs(), 900]),
    full: (server) => answersWith(server, acquire, [6, server.nowMs()]),
    fails: (server) => refuses(server, acquire, 'OOM command not allowed'),
  };
  const ask = (answers: string): Promise<AcquireOutcome> => {
    answers.split(', ').forEach((how, at) => answer[how]!(redlock.servers[at]!));
    return requests.ask(member, 'p.1');
  };

  describe('The answers of the nodes', () => {
    it.each([
      ['grants, grants, grants, fails, closed', 'granted'],
      ['grants, grants, busy, busy, fails', 'busy'],
      ['grants, grants, busy, fails, fails', 'busy'],
      ['grants, busy, busy, busy, busy', 'busy'],
      ['upgrade, upgrade, upgrade, fails, fails', 'upgrade'],
      ['full, full, full, grants, grants', 'full'],
    ])('%s: %s', async (answers, kind) => {
      expect((await ask(answers)).kind).toBe(kind);
      if (kind === 'granted') await requests.release(member, 'p.1');
      await redlock.pass(50);
      expect(requests.standing()).toEqual([]);
    });

    it.each(['grants, grants, closed, closed, fails', 'grants, grants, fails, fails, fails'])('%s: nobody knows whether the lock is taken', async (answers) => {
      const error = await requests.failure(ask(answers));
      expect(error).toMatchObject({ retryable: true, key: 'k', message: expect.stringMatching(/^Lock 'k': no quorum of 5 nodes for a grant \(redis1:6379: /) });
      expect(error.nodes).toHaveLength(5);
      await redlock.pass(50);
      expect(requests.standing()).toEqual([]);
    });

    it.each([0, 1])('that were for another script are no votes, though a vote may be a number as well: %i', async (code) => {
      for (const server of redlock.servers) answersWith(server, acquire, code);
      expect((await requests.failure(requests.ask(member, 'p.1'))).message).toMatch(/gave an answer that no script of this library gives/);
    });
  });

  describe('A request whose fence has to be written back to a quorum', () => {
    let arrives: (() => void)[];
    let asked: Promise<AcquireOutcome>;
    const keys = new RedisKeys('lock');
    beforeEach(async () => {
      const [one] = redlock.servers as [SimServer];
      const record = keys.fence(keys.groupOf('k'));
      one.put(record, `2000000000000000 ${one.text(record)!.split(' ')[1]!}`);
      arrives = redlock.servers.map((server) => holdsUp(server, bringBack));
      // The first three are heard of before the others.
      for (const { faults } of member.ways.slice(3)) faults.shortestMs = faults.longestMs = 10;
      asked = member.store.acquire(requests.request('p.1'));
      await redlock.pass(20);
    });

    it('is not granted while fewer have the fence', async () => {
      expect((await requests.failure(asked)).message).toMatch(/no quorum of 5 nodes for its agreement on a fence/);
      for (const arrive of arrives) arrive();
      await redlock.pass(500);
      expect(requests.standing()).toEqual([]);
    });

    it('is granted no more when it was released meanwhile', async () => {
      await requests.release(member, 'p.1');
      expect(await redlock.runUntil(asked.then(({ kind }) => kind, () => 'failed'))).not.toBe('granted');
      await redlock.pass(20);
      // What is held up comes behind the release, and is taken back once more.
      for (const arrive of arrives) arrive();
      expect(requests.standing()).not.toEqual([]);
      await redlock.pass(500);
      expect(requests.standing()).toEqual([]);
    });
  });
});

/** The second of them has no word, whatever the two are asked or say. */
describe('A server that has two names', () => {
  let one: SimServer;
  let two: SimServer;
  /** Its third node leads to the first server. */
  let mine: RedlockMember;
  let theirs: RedlockMember;
  let wakes: Wake[];
  beforeEach(async () => {
    [one, two] = redlock.servers as [SimServer, SimServer];
    [mine, theirs] = [await redlock.opened('p'), await redlock.opened('q')];
    wakes = [];
    mine.store.onWake((wake) => wakes.push(wake));
    const own = mine.ways[2]!;
    mine.ways[2] = redlock.wayTo(one);
    own.cut();
    while (!isTwin()) await redlock.pass(1);
    // Its subscription is there as well.
    await redlock.pass(20);
  });

  const isTwin = (): boolean => mine.told.some(({ kind }) => kind === 'twin redis3:6379');
  /** The other process reaches the first server alone. */
  const isCutOff = (): void => {
    for (const way of theirs.ways.slice(1)) way.silence('keeps');
  };

  it('does not call a lock lost by both of them', async () => {
    await requests.granted(mine, 'p.1');
    isCutOff();
    await requests.failure(theirs.store.forceRelease('k'));
    expect(requests.standing()).toEqual(['redis2']);
    expect(wakes).toEqual([]);
  });

  it('does not call a waiter by both of them', async () => {
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    await requests.ask(mine, 'p.1', { queue: true });
    isCutOff();
    void theirs.store.release({ key: 'k', id: 'q.1' }).catch(() => undefined);
    await redlock.pass(100);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    expect(wakes).toEqual([]);
  });

  it('tells a holder once that somebody waits', async () => {
    await requests.granted(mine, 'p.1');
    isCutOff();
    void theirs.store.acquire(requests.request('q.1', { queue: true })).catch(() => undefined);
    await redlock.pass(100);
    expect(wakes).toEqual([{ kind: 'contended', key: 'k', id: 'p.1' }]);
  });

  it('is asked once for what it knows of a lock, and is no quorum', async () => {
    two.stop();
    await redlock.pass(5);
    for (const call of [() => mine.store.inspect('k'), () => mine.store.tryOut(), () => mine.store.forceRelease('k')]) {
      expect((await requests.failure(call())).nodes).toContainEqual({ node: 'redis3:6379', reason: 'the same server as redis1:6379' });
    }
  });

  it('has its other name when the first one leads nowhere', async () => {
    const [first] = mine.ways;
    first!.silence('loses');
    first!.cut();
    await redlock.pass(3_000);
    await requests.granted(mine, 'p.1');
    expect(requests.standing()).toEqual(['redis1', 'redis2']);
  });

  it('is not named any more when its other name leads nowhere', async () => {
    redlock.servers[2]!.stop();
    mine.ways[2] = redlock.wayTo(redlock.servers[2]!);
    one.stop();
    await redlock.pass(20);
    expect((await requests.failure(mine.store.inspect('k'))).nodes).toContainEqual({ node: 'redis3:6379', reason: 'not connected' });
  });
});

// Nodes that were missing, forgot or came back: what is told of them, and what they may do again.

let one: SimServer;
let two: SimServer;
let three: SimServer;
beforeEach(() => void ([one, two, three] = redlock.servers as [SimServer, SimServer, SimServer]));

const told = ({ told }: RedlockMember): string[] => told.map(({ kind, message }) => `${kind}: ${message}`);

describe('A node that was missing at boot', () => {
  it('counts as one that does not serve, and is told when it serves, though nobody asks for a lock', async () => {
    three.stop();
    const member = await redlock.opened('p');
    two.stop();
    await redlock.pass(2_000);
    expect(told(member).at(-1)).toMatch(/^store lost: Locks: the Redlock node redis2:6379 does not serve: .* 1 of 3 nodes serve, which is no quorum/);
    three.start(true);
    await redlock.pass(3_000);
    expect(told(member)).toContainEqual(expect.stringMatching(/^store back: Locks: the Redlock node redis3:6379 serves again, after \d+ ms\. 2 of 3 nodes serve: there is a quorum again\.$/));
  });

  it('has its vote when it is fit, though its connection stood all the time', async () => {
    three.loading = true;
    const member = await redlock.opened('p');
    expect(told(member)).toEqual([expect.stringMatching(/^boot: Locks: 1 of 3 Redlock nodes cannot be used now \(redis3:6379: not connected yet\)/)]);
    await redlock.pass(8_000);
    three.loading = false;
    await redlock.pass(7_000);
    await requests.granted(member, 'p.1');
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });
});

describe('A node that does not serve', () => {
  it('and keeps its connection is told when it serves again, though nobody asks for a lock', async () => {
    const member = await redlock.opened('p');
    three.loading = true;
    await requests.granted(member, 'p.1');
    await redlock.pass(3_000);
    expect(told(member)).toEqual([expect.stringMatching(/^node lost: Locks: the Redlock node redis3:6379 does not serve: LOADING/)]);
    three.loading = false;
    await redlock.pass(3_000);
    expect(told(member).slice(1)).toEqual([expect.stringMatching(/^node back: Locks: the Redlock node redis3:6379 serves again, after \d+ ms\. 3 of 3 nodes serve\.$/)]);
  });
});

describe('A node that was restarted with its data', () => {
  it('L6: votes again when it has loaded them, though it was asked before, and nobody asks for a lock', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    three.stop();
    await redlock.pass(100);
    three.loading = true;
    three.start(true);
    await redlock.pass(3_000);
    three.loading = false;
    await redlock.pass(9_000);
    await requests.granted(member, 'p.1');
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });
});

describe('A node whose data were flushed', () => {
  it('stays out while what it forgot may last, and votes again after that, on the connection that it had', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    one.flush();
    await requests.granted(member, 'p.1', { leaseMs: 1_000 });
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
    await requests.release(member, 'p.1');
    await redlock.pass(7_000);
    expect(told(member)).toEqual([expect.stringMatching(/^forgot redis1:6379: .*The other nodes are a quorum/), 'votes redis1:6379: Locks: redis1:6379 votes again.']);
    await requests.granted(member, 'p.2');
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });

  it('keeps no timer of a store that is closed', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    one.flush();
    await requests.granted(member, 'p.1');
    await redlock.pass(50);
    expect(redlock.pendingTimers).toBeGreaterThan(0);
    await redlock.runUntil(member.store.close());
    expect(redlock.pendingTimers).toBe(0);
  });
});

describe('A node with a new connection', () => {
  it('is not asked for a vote before it has said who it is', async () => {
    const member = await redlock.opened('p');
    const arrives = holdsUp(three, recall);
    member.ways[2]!.cut();
    await redlock.pass(500);
    expect(member.ways[2]!.sockets.size).toBeGreaterThan(0);
    two.stop();
    await redlock.pass(100);
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes.map(({ reason }) => reason)).toEqual([expect.any(String), 'not connected', 'not connected']);
    arrives();
    await redlock.pass(5_000);
    await requests.granted(member, 'p.2');
  });

  it('is listened to on the server to which its address leads now', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    const moved = new SimServer('redis4', redlock.time, 0);
    remembers(moved);
    for (const { ways } of [member, other]) {
      ways[2] = redlock.wayTo(moved);
      // The connection for messages stays.
      for (const socket of [...three.sockets]) if (socket.channels.size === 0) socket.cut(true);
    }
    await redlock.pass(2_000);
    const wakes: Wake[] = [];
    member.store.onWake((wake) => wakes.push(wake));
    for (const way of member.ways.slice(0, 2)) way.faults.dropsMessages = 1;
    await requests.granted(member, 'p.1');
    await requests.ask(other, 'q.1', { queue: true });
    await redlock.pass(50);
    expect(wakes).toEqual([{ kind: 'contended', key: 'k', id: 'p.1' }]);
  });

  it('to a server with other locks of an older version is not used until that is put right, and every error says why', async () => {
    const member = await redlock.opened('p');
    three.stop();
    three.put('{lock}:format', 'version=1');
    three.start(true);
    await redlock.pass(2_000);
    expect(told(member).at(-1)).toMatch(/^refused redis3:6379: Locks: redis3:6379 is not used until this is put right: .*found 'version=1'/);
    two.stop();
    await redlock.pass(500);
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes[2]).toEqual({ node: 'redis3:6379', reason: expect.stringMatching(/^format 'version=1' instead of/) });
    three.stop();
    three.start(false);
    remembers(three);
    await redlock.pass(5_000);
    await requests.granted(member, 'p.2');
  });
});

describe('Nodes whose connections are all cut again and again', () => {
  it('grant locks as soon as a quorum is connected', async () => {
    const { store, ways } = await redlock.opened('p');
    const locks = new LockService({ store, process: 'p', clock: redlock.clock });
    for (const { faults } of ways) faults.shortestMs = faults.longestMs = 20;
    let granted = 0;
    let isOver = false;
    const caller = async (): Promise<void> => {
      while (!isOver) await locks.withLock('k', { waitMs: 10_000 }, async () => void (granted += 1));
    };
    const calling = caller();
    for (let n = 0; n < 50; n += 1) {
      for (const way of ways) way.cut();
      await redlock.pass(250);
    }
    isOver = true;
    expect(granted).toBeGreaterThan(20);
    await redlock.runUntil(calling);
    await redlock.runUntil(locks.close());
  });
});

describe('A store that is closed while a node comes back', () => {
  it('says nothing of it', async () => {
    three.stop();
    const member = await redlock.opened('p');
    await redlock.pass(10_000);
    const before = told(member);
    three.start(true);
    const asked = three.commands;
    while (three.commands < asked + 3) await redlock.pass(1);
    await redlock.runUntil(member.store.close());
    await redlock.pass(3_000);
    expect(told(member)).toEqual(before);
  });
});
