/** One attempt on five nodes that a test speaks for, on virtual time: which fence is used, how long a grant is trusted, what is taken back. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { granted, LEASE_MS, ON, onStage } from '../../support/ballot-stage.js';

describe('The fence of a ballot', () => {
  it('is the proposal in one round where a quorum knows of no greater one', onStage(async ({ cast, asked, nodes }) => {
    const { fence } = granted(await cast());
    expect(fence).toBeGreaterThan(0);
    expect(nodes.flatMap(({ acts }) => acts).some((act) => act.startsWith('raise'))).toBe(false);
    expect(asked('vote p.1/1')).toBe('abcde');
  }));

  it('is at least the clock, for nodes that lost their counters and a process that has seen nothing', onStage(async ({ cast, clock }) => {
    const wallUs = Math.floor(clock.wallNow()) * 1_000;
    expect(granted(await cast()).fence).toBeGreaterThanOrEqual(wallUs);
  }));

  it('is above what this process has seen, though its clock was set back', onStage(async ({ cast, clock, floors }) => {
    const seen = (clock.wallNow() + 3_600_000) * 1_000;
    floors.saw(ON.group, seen);
    expect(granted(await cast()).fence).toBe(seen + 1);
  }));

  it('is the greatest that any of the voters knows, and is written back to a quorum before it is used', onStage(async ({ cast, nodes, clock, asked }) => {
    const [a, b, c, d, e] = nodes;
    a.says = { fence: 100 };
    b.says = { fence: 105 };
    c.says = { fence: 103 };
    d.says = e.says = 'mute';
    const before = clock.now();
    expect(granted(await cast()).fence).toBe(105);
    expect(asked('raise p.1/1 105')).toBe('ac');
    expect(clock.now()).toBeGreaterThanOrEqual(before + 2);
  }));

  it('is not used when it could not be written back, and all votes are taken back', onStage(async ({ cast, nodes, asked }) => {
    const [a, b, c, d, e] = nodes;
    for (const node of [a, c]) Object.assign(node, { says: { fence: 100 }, raises: 'fails' });
    b.says = { fence: 105 };
    d.says = e.says = { kind: 'busy', leftMs: 500 };
    await expect(cast()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(asked('release p.1/1')).toBe('abc');
  }));

  it('is given to a node that voted with another one too late to be asked', onStage(async ({ cast, nodes, clock, asked }) => {
    Object.assign(nodes[4], { says: { fence: 900_000 }, afterMs: 50 });
    for (const node of nodes.slice(0, 4)) node.says = { fence: 100 };
    expect(granted(await cast()).fence).toBe(100);
    await delay(clock, 100);
    expect(asked('raise p.1/1 100')).toBe('e');
  }));

  it("is that of the owner's hold where a quorum tells the same one", onStage(async ({ cast, nodes, clock, asked }) => {
    const [a, b, c] = nodes;
    for (const node of [a, b, c]) node.says = { fence: 70, shared: true };
    expect(granted(await cast()).fence).toBe(70);
    await delay(clock, 10);
    expect(asked('raise p.1/1 70')).toBe('de');
  }));

  it("is none where nodes tell different fences of the owner's hold", onStage(async ({ cast, nodes, asked }) => {
    const [a, b, c, d, e] = nodes;
    for (const node of [a, b]) node.says = { fence: 70, shared: true };
    for (const node of [c, d]) node.says = { fence: 75, shared: true };
    e.says = { kind: 'busy', leftMs: 500 };
    expect((await cast()).kind).toBe('busy');
    expect(asked('release p.1/1')).toBe('abcd');
  }));
});

describe('The trust in a ballot', () => {
  it('ends when the third of five leases does, counted from before the nodes were asked', onStage(async ({ cast, nodes, clock }) => {
    const start = clock.now();
    nodes.forEach((node, n) => (node.says = { end: start + 100 * (n + 1), fence: 5 }));
    nodes[3].says = nodes[4].says = { kind: 'busy', leftMs: 500 };
    expect(granted(await cast()).trustedUntil).toBe(start + 100);
  }));

  it('is gone without a forced release from a node that was restarted after it had granted it, or whose lease has ended', onStage(async ({ cast, ballot, nodes, clock }) => {
    await cast();
    await delay(clock, 5);
    const taken = (at = clock.now()): string => nodes.filter((node) => ballot.standing.wasTakenFrom(node as unknown as RedlockNode, at)).map(({ name }) => name).join('');
    expect(taken()).toBe('abcde');
    nodes[1].runId = 'second';
    expect(taken()).toBe('acde');
    expect(taken(clock.now() + LEASE_MS)).toBe('');
  }));

  it('is none when the time is over before a quorum has answered: everything is taken back', onStage(async ({ cast, nodes, clock, asked }) => {
    for (const node of nodes) node.afterMs = 90;
    for (const node of nodes) node.says = { end: clock.now() + 80, fence: 5 };
    await expect(cast()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(asked('release p.1/1')).toBe('abcde');
  }));
});

describe('A ballot that is over', () => {
  it('is taken back where it was granted, where nothing is known, and not where it was refused', onStage(async ({ cast, nodes, clock, asked }) => {
    const [a, b, c, d, e] = nodes;
    for (const node of [a, b, c]) node.says = { kind: 'busy', leftMs: 500 };
    Object.assign(d, { afterMs: 0 });
    e.says = 'mute';
    expect((await cast()).kind).toBe('busy');
    await delay(clock, 10);
    expect(asked('release p.1/1')).toBe('de');
  }));

  it('is taken back once more from a node that granted it after it had been taken back', onStage(async ({ cast, nodes, clock }) => {
    const [a, b, c, d] = nodes;
    for (const node of [a, b, c]) node.says = { kind: 'busy', leftMs: 500 };
    d.afterMs = 50;
    d.says = { sentAt: clock.now() + 20 }; // by a script that the server did not know, and was sent a second time
    await cast();
    await delay(clock, 100);
    expect(d.acts).toEqual(['vote p.1/1', 'release p.1/1', 'release p.1/1']);
  }));

  it('is not taken back twice from a node whose answer was late: it answers in order', onStage(async ({ cast, nodes, clock }) => {
    nodes[4].afterMs = 50;
    for (const node of nodes.slice(0, 3)) node.says = { kind: 'busy', leftMs: 500 };
    await cast();
    await delay(clock, 100);
    expect(nodes[4].acts).toEqual(['vote p.1/1', 'release p.1/1']);
  }));

  it('grants nothing any more when it was released meanwhile', onStage(async ({ cast, ballot, nodes, clock }) => {
    for (const node of nodes) node.afterMs = 20;
    const casting = cast();
    await delay(clock, 5);
    ballot.close(); // whoever says so releases it on the nodes where it may stand
    expect(nodes.every((node) => ballot.standing.mayBeOn(node as unknown as RedlockNode))).toBe(true);
    expect((await casting).kind).toBe('busy');
    expect(ballot.state).toBe('over');
  }));
});

describe('A ballot that was refused while its holder goes on waiting', () => {
  it('keeps its place in the line of the nodes that had granted it', onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(2)) node.says = { kind: 'busy', leftMs: 500 };
    expect((await cast()).kind).toBe('busy');
    expect(nodes.map(({ marks }) => marks.length)).toEqual([1, 1, 0, 0, 0]);
    expect(nodes[0].marks[0]).toMatchObject({ mode: 'write', waitedMs: expect.closeTo(301, 0) });
  }, 300));

  it('leaves none when nobody waits', onStage(async ({ cast, nodes }) => {
    for (const node of nodes.slice(2)) node.says = { kind: 'busy', leftMs: 500 };
    await cast();
    expect(nodes.flatMap(({ marks }) => marks)).toEqual([]);
  }));
});

describe('A holder', () => {
  it('hears from any node that others wait, and tells all nodes who comes next', onStage(async ({ cast, ballot, nodes }) => {
    nodes[1].says = { next: 'q' };
    expect(granted(await cast()).contended).toBe(true);
    expect(ballot.standing.leaving.next).toBe('q');
  }));

  it('does not call its own process next, but counts as wanted when that waits', onStage(async ({ cast, ballot, nodes }) => {
    nodes[0].says = { next: 'p' };
    expect(granted(await cast()).contended).toBe(true);
    expect(ballot.standing.leaving.next).toBe(undefined);
    ballot.standing.wantedBy('p');
    ballot.standing.wantedBy('q');
    expect(ballot.standing.leaving.next).toBe('q');
  }));
});

describe('A silent node', () => {
  it('is not asked while the others are a quorum', onStage(async ({ cast, nodes, asked }) => {
    nodes[0].silent = nodes[1].silent = true;
    expect((await cast()).kind).toBe('granted');
    expect(asked('vote p.1/1')).toBe('cde');
  }));

  it('is asked when the others are not', onStage(async ({ cast, nodes, asked }) => {
    nodes[0].silent = nodes[1].silent = nodes[2].silent = true;
    expect((await cast()).kind).toBe('granted');
    expect(asked('vote p.1/1')).toBe('abcde');
  }));

  it('costs a request that is refused for its sake no more than a tenth of the lease', onStage(async ({ cast, nodes, clock }) => {
    const [, , c, d, e] = nodes;
    for (const node of [c, d]) node.says = { kind: 'busy', leftMs: 500 };
    e.says = 'mute';
    const start = clock.now();
    expect((await cast()).kind).toBe('busy');
    expect(clock.now() - start).toBeLessThanOrEqual(LEASE_MS / 10 + 5);
  }));
});

describe('A ballot that is held', () => {
  it('is put back on a node that lost it, with its fence', onStage(async ({ cast, ballot, nodes, asked, clock }) => {
    const { fence } = granted(await cast());
    nodes[2].acts.length = 0;
    nodes[2].says = { fence: fence + 40 };
    ballot.rejoin(nodes[2] as unknown as RedlockNode, LEASE_MS);
    await delay(clock, 5);
    expect(nodes[2].acts).toEqual(['vote p.1/1', `raise p.1/1 ${fence}`]);
    expect(asked('release p.1/1')).toBe('');
  }));

  it('is not put back when it is over, nor on a node to which no limit can be told', onStage(async ({ cast, ballot, nodes }) => {
    granted(await cast());
    for (const node of nodes) node.acts.length = 0;
    nodes[1].keepsLimits = false;
    ballot.rejoin(nodes[1] as unknown as RedlockNode, LEASE_MS);
    ballot.close();
    ballot.rejoin(nodes[2] as unknown as RedlockNode, LEASE_MS);
    expect(nodes.flatMap(({ acts }) => acts)).toEqual([]);
  }));

  it('is not put back once a node released it for an operator', onStage(async ({ cast, ballot, nodes }) => {
    granted(await cast());
    for (const node of nodes) node.acts.length = 0;
    ballot.standing.takenAwayOn(nodes[0] as unknown as RedlockNode);
    ballot.rejoin(nodes[0] as unknown as RedlockNode, LEASE_MS);
    expect(nodes.flatMap(({ acts }) => acts)).toEqual([]);
  }));

  it('is released without a look at the clocks of the nodes while it can be trusted, and with one after that', onStage(async ({ cast, ballot, clock }) => {
    const { trustedUntil } = granted(await cast());
    ballot.close();
    expect(ballot.standing.leaving.mayBeOver).toBe(false);
    await delay(clock, trustedUntil - clock.now());
    ballot.close();
    expect(ballot.standing.leaving.mayBeOver).toBe(true);
  }));

  it('may outlive a quorum while it can be trusted, and not when a node released it for an operator', onStage(async ({ cast, ballot, nodes, clock }) => {
    const { trustedUntil } = granted(await cast());
    expect(ballot.standing.mayOutlive(clock.now())).toBe(true);
    expect(ballot.standing.mayOutlive(trustedUntil)).toBe(false);
    ballot.standing.takenAwayOn(nodes[0] as unknown as RedlockNode);
    expect(ballot.standing.mayOutlive(clock.now())).toBe(false);
  }));
});
