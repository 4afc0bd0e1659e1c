/** What a ballot makes of each answer of its nodes: what it returns, what it tells the store, and what it asks of the nodes. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome } from '../../../lib/core/port/lock-store.js';
import type { NodeVote } from '../../../lib/stores/redlock/node-vote.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { granted, LEASE_MS, ON, onStage } from '../../support/ballot-stage.js';

const BUSY: NodeVote = { kind: 'busy', leftMs: 500 };
const retryInMs = (outcome: AcquireOutcome): number => (outcome.kind === 'busy' ? outcome.retryInMs : NaN);
afterEach(() => void jest.restoreAllMocks());

describe('The answers of the nodes', () => {
  it.each(['upgrade', 'full'] as const)('of which a quorum says %s end the request with that', (kind) => onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(0, 3)) node.says = { kind };
    expect(await cast()).toEqual({ kind });
  })());

  it('that are split between grants and others are a lock that is busy, which is asked for again as if nobody knew the end of its lease', onStage(async ({ cast, nodes }) => {
    nodes[0].says = nodes[1].says = { kind: 'busy', leftMs: 5 };
    nodes[2].says = { kind: 'full' };
    expect(retryInMs(await cast())).toBeGreaterThanOrEqual(200);
  }));

  it.each<[string, NodeVote]>([['busy', BUSY], ['upgrade', { kind: 'upgrade' }], ['full', { kind: 'full' }]])('are a lock that is busy when one says %s, and two others need time', (_what, one) => onStage(async ({ cast, nodes }) => {
    nodes[0].says = one;
    nodes[1].says = nodes[2].says = { kind: 'quarantined', leftMs: 9 };
    expect((await cast()).kind).toBe('busy');
  })());

  it('are a lock that is busy when one shares the hold of its owner, and no quorum does', onStage(async ({ cast, nodes }) => {
    nodes[0].says = { fence: 70, shared: true };
    nodes[1].says = nodes[2].says = { kind: 'quarantined', leftMs: 9 };
    expect((await cast()).kind).toBe('busy');
  }));

  it.each<NodeVote>([{ kind: 'quarantined', leftMs: 9 }, { kind: 'not admitted' }, { kind: 'late' }])('that are no refusal, of three nodes, are an error that names all: %j', (says) => onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(0, 3)) node.says = says;
    await expect(cast()).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringMatching(/^Lock 'k': no quorum of 5 nodes for a grant \(a: /), nodes: { length: 5 } });
  })());

  it('are an error when none says that others have the lock, though two granted it', onStage(async ({ cast, nodes }) => {
    nodes[2].says = { kind: 'quarantined', leftMs: 9 };
    nodes[3].says = { kind: 'late' };
    nodes[4].says = { kind: 'not admitted' };
    await expect(cast()).rejects.toMatchObject({ message: expect.stringContaining('(a: granted; b: granted; c: restarted or flushed') });
  }));

  it('are an error when three nodes fail, although others refused', onStage(async ({ cast, nodes }) => {
    nodes[0].says = { kind: 'upgrade' };
    nodes[1].says = { kind: 'full' };
    for (const node of nodes.slice(2)) Object.assign(node, { says: 'fails', afterMs: 2 });
    await expect(cast()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
  }));

  it('are no error when two nodes fail, and one says that the lock is busy', onStage(async ({ cast, nodes }) => {
    nodes[0].says = BUSY;
    for (const node of nodes.slice(1, 3)) node.says = 'fails';
    expect((await cast()).kind).toBe('busy');
  }));

  it('tell the store which nodes forgot, and no others', onStage(async ({ cast, nodes, told }) => {
    nodes[0].says = { kind: 'quarantined', leftMs: 9 };
    nodes[1].says = { kind: 'not admitted' };
    granted(await cast());
    expect(told.filter((one) => one.endsWith('forgot'))).toEqual(['a forgot', 'b forgot']);
  }));

  it('tell the store how long the nodes took that answered', onStage(async ({ cast, nodes, told }) => {
    for (const node of nodes) node.afterMs = 12;
    nodes[4].says = 'mute';
    granted(await cast());
    expect(told).toEqual(['took 12']);
  }));

  it('tell the store how long the nodes took also when the request was released meanwhile', onStage(async ({ cast, nodes, ballot, clock, told }) => {
    for (const node of nodes) node.afterMs = 12;
    const casting = cast();
    await delay(clock, 5);
    ballot.close();
    await casting;
    expect(told).toEqual(['took 12']);
  }));

  it('tell the store the last of the fences that were reserved', onStage(async ({ cast, nodes, floors }) => {
    for (const node of nodes) node.says = { fence: 9_000 };
    granted(await cast());
    expect(floors.of(ON.group)).toBe(9_015);
  }, -1, { fences: 16 }));

  it('count as soon as a quorum granted, without those that are missing', onStage(async ({ cast, nodes, clock }) => {
    nodes[3].says = nodes[4].says = 'mute';
    const since = clock.now();
    granted(await cast());
    expect(clock.now() - since).toBe(1);
  }));

  it('that share the hold of an owner are one fence in its mode, whatever was asked for', onStage(async ({ cast, nodes, ballot }) => {
    for (const node of nodes.slice(0, 3)) node.says = { fence: 70, shared: true, mode: 'read' };
    nodes[3].says = { fence: 70, mode: 'write' };
    expect(granted(await cast())).toMatchObject({ fence: 70, fences: 1, mode: 'read' });
    expect([ballot.grantUntil(5).trustedUntil, ballot.graceMs, ballot.leaseMs, ballot.id, ballot.key]).toEqual([5, 0, LEASE_MS, 'p.1/1', 'k']);
  }, -1, { fences: 16 }));

  it('that share the hold of an owner are of the one that a quorum tells, whatever other nodes say', onStage(async ({ cast, nodes, asked, clock }) => {
    nodes[0].says = { fence: 70, mode: 'write' };
    nodes[1].says = { fence: 75, shared: true, mode: 'write' };
    for (const node of nodes.slice(2)) node.says = { fence: 70, shared: true, mode: 'read' };
    expect(granted(await cast())).toMatchObject({ fence: 70, fences: 1, mode: 'read' });
    await delay(clock, 10);
    expect(asked('raise p.1/1 70')).toBe('b');
  }, -1, { fences: 16 }));

  it('that come when its time is just over are none: everything is taken back', onStage(async ({ cast, nodes, clock, asked }) => {
    for (const node of nodes) node.says = { end: clock.now() + 1, fence: 5 };
    await expect(cast()).rejects.toThrow('a quorum granted it, but its 1000 ms were over before all had answered');
    expect(asked('release p.1/1')).toBe('abcde');
  }));
});

describe('A request', () => {
  it('may act on the nodes for as long as its lease, or as a command, but not after its own limit', onStage(async ({ cast, nodes, clock }) => {
    const now = clock.now();
    await cast();
    expect(nodes.map(({ votes }) => votes[0]!.limit)).toEqual(nodes.map(() => now + 2_000));
  }));

  it('with a long lease may act for that long', onStage(async ({ cast, nodes, clock }) => {
    const now = clock.now();
    await cast();
    expect(nodes[0].votes[0]!.limit).toBe(now + 9_000);
  }, -1, { leaseMs: 9_000 }));

  it('with a limit of its own may act until that', onStage(async ({ cast, nodes, clock }) => {
    await cast(clock.now() + 700);
    expect(nodes[0].votes[0]!.limit).toBe(1_700);
  }));

  it('has ended by itself on every node when what it may have been granted there has', onStage(async ({ cast, ballot, clock }) => {
    const lastsMs = 2_000 + 4_000 + 300;
    await cast();
    expect(ballot.standing.endsAt).toBe(clock.now() - 1 + lastsMs + marginOf(lastsMs));
  }, -1, { minHoldMs: 4_000, graceMs: 300 }));

  it('spares a silent node only when the others that are connected are a quorum, and says so in an error', onStage(async ({ cast, nodes, asked }) => {
    nodes[0].silent = true;
    nodes[1].connected = nodes[2].connected = false;
    for (const node of nodes.slice(1, 3)) node.says = 'fails';
    granted(await cast());
    expect(asked('vote p.1/1')).toBe('abcde');
  }));

  it('that is refused by nodes of which a silent one was spared names that one', onStage(async ({ cast, nodes, asked }) => {
    nodes[0].silent = true;
    for (const node of nodes.slice(1)) node.says = { kind: 'late' };
    const error: unknown = await cast().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ nodes: expect.arrayContaining([{ node: 'a', reason: 'silent' }]) });
    expect(asked('vote p.1/1')).toBe('bcde');
  }));

  it('that is refused asks again no later than the present lease ends on the nodes, and at once when its votes were split', onStage(async ({ cast, nodes }) => {
    for (const node of nodes) node.says = { kind: 'busy', leftMs: 30 };
    nodes[0].says = { kind: 'busy', leftMs: 5 };
    expect(retryInMs(await cast())).toBe(30);
  }, 500));

  it('that is refused for a lease without an end that it knows pauses for as long as it has waited', onStage(async ({ cast, nodes }) => {
    for (const node of nodes) node.says = { kind: 'busy', leftMs: Infinity };
    const pause = retryInMs(await cast());
    expect(pause).toBeGreaterThanOrEqual(54);
    expect(pause).toBeLessThanOrEqual(104);
  }, 1_500));

  it('that does not wait pauses as one that has just begun to', onStage(async ({ cast, nodes }) => {
    jest.spyOn(Math, 'random').mockReturnValue(0);
    for (const node of nodes) node.says = { kind: 'busy', leftMs: Infinity };
    expect(retryInMs(await cast())).toBe(204);
  }));

  it('that has just been refused for the first time keeps its place too', onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(2)) node.says = BUSY;
    await cast();
    expect(nodes.slice(0, 2).map(({ marks }) => marks[0]?.waitedMs)).toEqual([1, 1]);
  }, 0));

  it('that failed keeps no place', onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(2)) node.says = 'fails';
    await cast().catch(() => undefined);
    expect(nodes.flatMap(({ marks }) => marks)).toEqual([]);
  }, 300));

  it('that a node did not answer is taken back there again until it can act there no more', onStage(async ({ cast, nodes, clock }) => {
    for (const node of nodes.slice(0, 3)) node.says = BUSY;
    nodes[3].says = 'fails';
    nodes[3].afterMs = nodes[4].afterMs = 0;
    expect((await cast(clock.now() + 700)).kind).toBe('busy');
    await delay(clock, 5_000);
    expect([nodes[3].left.length, nodes[4].left.length]).toEqual([4, 1]);
  }));

  it('that was released while its fence was written back is granted no more', onStage(async ({ cast, nodes, ballot, clock }) => {
    [100, 105, 103].forEach((fence, n) => (nodes[n]!.says = { fence }));
    nodes[3].says = nodes[4].says = 'mute';
    const casting = cast();
    await delay(clock, 1.5);
    ballot.close();
    expect((await casting).kind).toBe('busy');
    expect(ballot.state).toBe('over');
  }));
});

describe('A ballot that is held', () => {
  it('is put back with what is left of it only: its lease and its fence, before all who wait, and until its trust ends', onStage(async ({ cast, ballot, nodes }) => {
    const { fence, trustedUntil } = granted(await cast());
    nodes[2].votes.length = 0;
    ballot.rejoin(nodes[2] as unknown as RedlockNode, 700);
    expect(nodes[2].votes).toMatchObject([{ request: { leaseMs: 700, minHoldMs: 0, waitedMs: -2, patienceMs: 0 }, limit: trustedUntil }]);
    expect(fence).toBeGreaterThan(0);
  }, 300, { minHoldMs: 5_000 }));

  it('is put back neither on a silent node nor after the end of its trust', onStage(async ({ cast, ballot, nodes, clock }) => {
    const { trustedUntil } = granted(await cast());
    for (const node of nodes) node.votes.length = 0;
    nodes[1].silent = true;
    ballot.rejoin(nodes[1] as unknown as RedlockNode, LEASE_MS);
    await delay(clock, trustedUntil - clock.now());
    ballot.rejoin(nodes[2] as unknown as RedlockNode, LEASE_MS);
    expect(nodes.flatMap(({ votes }) => votes)).toEqual([]);
  }));

  it('that was downgraded is put back for reading', onStage(async ({ cast, ballot, nodes }) => {
    granted(await cast());
    ballot.downgraded();
    ballot.rejoin(nodes[0] as unknown as RedlockNode, LEASE_MS);
    expect(nodes[0].votes.at(-1)!.request.mode).toBe('read');
  }));

  it('knows of nobody who waits when no node named one', onStage(async ({ cast, ballot }) => {
    expect(granted(await cast()).contended).toBe(false);
    expect(ballot.close(true)).toMatchObject({ abandoned: true, next: undefined });
  }));

  it('corrects the fence of a node that has another one, and of no other', onStage(async ({ cast, nodes, asked, clock }) => {
    for (const node of nodes.slice(0, 3)) node.says = { fence: 100 };
    nodes[3].says = { fence: 90 };
    nodes[4].says = { fence: 100 };
    for (const node of nodes.slice(0, 3)) node.afterMs = 2;
    expect(granted(await cast()).fence).toBe(100);
    await delay(clock, 10);
    expect(asked('raise p.1/1 100')).toBe('d');
  }));

  it('is not held with a fence that a node lost meanwhile', onStage(async ({ cast, nodes }) => {
    [100, 105, 103].forEach((fence, n) => Object.assign(nodes[n]!, { says: { fence }, raises: n === 0 }));
    nodes[3].says = nodes[4].says = BUSY;
    await expect(cast()).rejects.toThrow(/no quorum of 2 nodes for its agreement on a fence \(a: agreed; c: lost the vote\)/);
  }));

  it('owes its minHoldMs also when it is taken back without a release', onStage(async ({ cast, ballot, nodes }) => {
    granted(await cast());
    ballot.takeBack();
    expect(nodes.map(({ left }) => left.map(({ abandoned }) => abandoned))).toEqual(nodes.map(() => [false]));
  }, -1, { minHoldMs: 5_000 }));
});
