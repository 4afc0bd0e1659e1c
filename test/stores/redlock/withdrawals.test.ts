/** What takes votes back: when a withdrawal is sent again, until when, and how many at a time; and where a ballot may stand. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Leaving } from '../../../lib/stores/redlock/node-vote.js';
import type { Hear } from '../../../lib/stores/redlock/poll.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { Standing } from '../../../lib/stores/redlock/standing.js';
import { Waiters } from '../../../lib/stores/redlock/waiters.js';
import { Withdrawals, type Withdrawal } from '../../../lib/stores/redlock/withdrawals.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { FakeClock } from '../../support/fake-clock.js';

const ON = new RedisKeys('lock').nodeSpotOf('k');

/** A node that answers a release when `isWell` says so, and remembers what it was told. */
class Node {
  connected = true;
  isWell = true;
  readonly told: Leaving[] = [];
  release(leaving: Leaving, hear: Hear<'released'>): void {
    this.told.push(leaving);
    const { isWell } = this;
    // No answer comes before the question has left.
    queueMicrotask(() => hear(isWell ? { kind: 'answer', answer: 'released' } : { kind: 'failure', error: new LockStoreError('no answer') }));
  }
}

function setUp() {
  const clock = new FakeClock();
  const withdrawals = new Withdrawals(clock);
  const node = new Node();
  const add = (how: Partial<Withdrawal> = {}): void => withdrawals.add({ node: node as unknown as RedlockNode, on: ON, id: 'p.1/1', until: clock.now() + 2_000, ...how });
  return { clock, withdrawals, node, add };
}

describe('A withdrawal', () => {
  it('that is answered is sent once', async () => {
    const { clock, node, add } = setUp();
    add();
    await clock.advance(5_000);
    expect([node.told.length, clock.pendingTimers]).toEqual([1, 0]);
  });

  it('that is not answered is sent every 250 ms, without the mark, until the vote has ended by itself', async () => {
    const { clock, node, add } = setUp();
    node.isWell = false;
    add({ mark: { mode: 'write', waitedMs: 5, patienceMs: 150 } });
    await clock.advance(249);
    expect(node.told).toHaveLength(1);
    await clock.advance(1);
    expect(node.told.map(({ mark }) => mark?.waitedMs)).toEqual([5, undefined]);
    await clock.advance(5_000);
    expect([node.told.length, clock.pendingTimers]).toEqual([8, 0]);
  });

  it('is sent again while a request that was not answered may still act, although it was answered itself', async () => {
    const { clock, node, add } = setUp();
    add({ lateUntil: clock.now() + 500 });
    await clock.advance(5_000);
    expect(node.told).toHaveLength(4);
  });

  it('waits for a node that is not connected, and for no vote that has ended', async () => {
    const { clock, node, add } = setUp();
    node.isWell = false;
    add();
    add({ id: 'p.2/1', until: clock.now() + 600 });
    node.connected = false;
    await clock.advance(1_000);
    expect(node.told).toHaveLength(2);
    node.connected = node.isWell = true;
    await clock.advance(250);
    expect(node.told.map(({ id }) => id)).toEqual(['p.1/1', 'p.2/1', 'p.1/1']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('of a vote that has ended by itself waits for nothing, be its node connected or not', async () => {
    const { clock, node, add } = setUp();
    node.isWell = false;
    add({ until: clock.now() });
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
    add({ until: clock.now() + 600 });
    node.connected = false;
    await clock.advance(1_000);
    expect([node.told.length, clock.pendingTimers]).toEqual([2, 0]);
  });

  it('is one of 250 at most that are sent again in one turn', async () => {
    const { clock, node, add } = setUp();
    node.isWell = false;
    for (let n = 0; n < 300; n += 1) add({ id: `p.${n}/1`, until: clock.now() + 60_000 });
    await clock.settle();
    node.isWell = true;
    node.told.length = 0;
    await clock.advance(250);
    expect(node.told).toHaveLength(250);
    await clock.advance(250);
    expect([node.told.length, clock.pendingTimers]).toEqual([300, 0]);
  });

  it('is sent no more once all are closed', async () => {
    const { clock, withdrawals, node, add } = setUp();
    withdrawals.close();
    node.isWell = false;
    add();
    const other = setUp();
    other.node.isWell = false;
    other.add();
    await other.clock.settle();
    expect(other.clock.pendingTimers).toBe(1);
    other.withdrawals.close();
    expect(other.clock.pendingTimers).toBe(0);
    await Promise.all([clock.advance(5_000), other.clock.advance(5_000)]);
    expect([node.told.length, other.node.told.length, clock.pendingTimers, other.clock.pendingTimers]).toEqual([1, 1, 0, 0]);
  });

  it('of a mark goes to each node that is connected, once', async () => {
    const { clock, withdrawals, node } = setUp();
    const away = Object.assign(new Node(), { connected: false });
    node.isWell = false;
    withdrawals.unmark(ON, [node, away] as unknown as RedlockNode[]);
    await clock.advance(1_000);
    expect(node.told).toMatchObject([{ id: '-', mark: { waitedMs: -1, patienceMs: 0 } }]);
    expect(away.told).toEqual([]);
  });
});

describe('A ballot', () => {
  function standing() {
    const clock = new FakeClock();
    const added: Withdrawal[] = [];
    const withdrawals = { add: (one: Withdrawal) => void added.push(one) } as unknown as Withdrawals;
    const ballot = new Standing({ clock, withdrawals }, ON, 'p.1/1');
    const [one, two] = [new Node(), new Node()] as unknown as [RedlockNode, RedlockNode];
    return { clock, added, ballot, one, two };
  }

  it('may stand on a node from the question until the node says no, and on none that is not connected', () => {
    const { ballot, one, two } = standing();
    Object.assign(two, { connected: false });
    ballot.asks(one);
    ballot.asks(two);
    expect([ballot.mayBeOn(one), ballot.mayBeOn(two)]).toEqual([true, false]);
    ballot.refusedBy(one);
    expect(ballot.mayBeOn(one)).toBe(false);
  });

  it('has ended by itself after the longest time for which it was prolonged, and the margin of clocks', async () => {
    const { clock, ballot } = standing();
    ballot.lasts(10_000);
    const end = clock.now() + 10_000 + marginOf(10_000);
    expect(ballot.endsAt).toBe(end);
    await clock.advance(100);
    ballot.lasts(500);
    expect(ballot.endsAt).toBe(end);
    expect(marginOf(10_000)).toBeGreaterThan(0);
  });

  it('owes no minHoldMs before a quorum has it, owes it after that, and does not when it is abandoned', () => {
    const { ballot } = standing();
    expect(ballot.end().abandoned).toBe(true);
    ballot.granted(9_000);
    expect(ballot.end().abandoned).toBe(false);
    expect(ballot.end(true).abandoned).toBe(true);
    expect(ballot.end().abandoned).toBe(true);
  });

  it('is over from the moment at which the nodes are told so, for whom it is kept is told to them', () => {
    const { clock, ballot } = standing();
    ballot.granted(clock.now() + 1);
    ballot.wantedBy('q');
    ballot.wantedBy('r');
    expect(ballot.end()).toMatchObject({ id: 'p.1/1', on: ON, askedAt: clock.now(), mayBeOver: false, next: 'q' });
    ballot.renewed(clock.now());
    expect(ballot.end().mayBeOver).toBe(true);
  });

  it('is taken back from a node that was asked and did not answer as soon as it is over, with the limit of the request', () => {
    const { added, ballot, one, two } = standing();
    for (const node of [one, two]) ballot.asks(node);
    ballot.noAnswerFrom(one, 700);
    expect(added).toEqual([]);
    ballot.end();
    ballot.noAnswerFrom(two, 800);
    expect(added.map(({ node, lateUntil }) => [node, lateUntil])).toEqual([[two, 800]]);
    const three = Object.assign(new Node(), { connected: false }) as unknown as RedlockNode;
    ballot.asks(three);
    ballot.noAnswerFrom(three, 900);
    expect(added).toHaveLength(1);
    ballot.withdrawAll(undefined);
    expect(added.slice(1).map(({ node, lateUntil }) => [node, lateUntil])).toEqual([[one, 700], [two, 800]]);
  });

  it('is taken back from a node that granted it at the moment of its end or later', () => {
    const { clock, added, ballot, one } = standing();
    ballot.asks(one);
    ballot.end();
    ballot.grantedLateBy(one, clock.now() - 1);
    expect(added).toEqual([]);
    ballot.grantedLateBy(one, clock.now());
    expect(added).toHaveLength(1);
    ballot.withdrawIfMute(one);
    expect(added).toHaveLength(1);
  });

  it('outlives a quorum until the end of its trust, and not one that was taken away', () => {
    const { clock, ballot, one, two } = standing();
    expect(ballot.mayOutlive(clock.now())).toBe(false);
    ballot.granted(clock.now() + 10);
    expect([ballot.mayOutlive(clock.now() + 9), ballot.mayOutlive(clock.now() + 10)]).toEqual([true, false]);
    expect([ballot.takenAwayOn(one), ballot.takenAwayOn(one), ballot.takenAwayOn(two)]).toEqual([1, 1, 2]);
    expect(ballot.mayOutlive(clock.now())).toBe(false);
  });
});

describe('A request that waits', () => {
  it('is called when a quorum of nodes has called within half a second, again for each turn', () => {
    const waiters = new Waiters(2);
    const [one, two] = [{}, {}];
    waiters.ask('p.1', 'k', 0);
    waiters.ask('p.2', 'k', 5);
    for (const id of ['p.1', 'p.2']) waiters.told(id);
    expect([waiters.call('other', one, 0), waiters.call('k', one, 0), waiters.call('k', one, 10)]).toEqual([[], [], []]);
    expect(waiters.call('k', two, 510)).toEqual(['p.1', 'p.2']);
    expect([waiters.call('k', one, 520), waiters.call('k', two, 1_021)]).toEqual([[], []]);
    expect(waiters.call('k', one, 1_030)).toEqual(['p.1', 'p.2']);
  });

  it('is the last when all others of its lock have gone, and leaves no calls behind', () => {
    const waiters = new Waiters(2);
    waiters.ask('p.1', 'k', 100);
    waiters.ask('p.1', 'k', 300);
    waiters.ask('p.2', 'k', 400);
    expect([waiters.leave('p.3'), waiters.leave('p.1'), waiters.leave('p.1'), waiters.leave('p.2'), waiters.size]).toEqual([false, false, false, true, 0]);
    waiters.call('k', {}, 0);
    waiters.ask('p.4', 'k', 0);
    waiters.told('p.4');
    expect([waiters.call('k', {}, 10), waiters.call('k', {}, 20)]).toEqual([[], ['p.4']]);
    waiters.clear();
    expect([waiters.size, waiters.call('k', {}, 30), waiters.call('k', {}, 40)]).toStrictEqual([0, [], []]);
  });
});
