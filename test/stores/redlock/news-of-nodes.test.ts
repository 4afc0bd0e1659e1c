/** The log lines about nodes of a Redlock: which of them do not serve, forgot, or vote again, and what that means for the locks. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { NodeLog } from '../../../lib/stores/redlock/node-log.js';
import { redlockSummary } from '../../../lib/stores/redlock/redlock-store.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

let clock: FakeClock;
let told: Finding[];
const kinds = (): string[] => told.splice(0).map(({ kind, level }) => `${kind}, ${level}`);
beforeEach(() => {
  clock = new FakeClock();
  told = [];
});

describe('Nodes that do not serve', () => {
  it('are told each, and the loss of the quorum and its end as such', async () => {
    const outages = new NodeLog(3, clock, (finding) => told.push(finding));
    outages.lost('a', 'timeout.');
    expect(told[0]!.message).toBe('Locks: the Redlock node a does not serve: timeout. 2 of 3 nodes serve, which is a quorum: locks go on.');
    expect(kinds()).toEqual(['node lost, warning']);
    outages.lost('b', 'refused');
    expect(told[0]!.message).toMatch(/refused\. 1 of 3 nodes serve, which is no quorum: no lock can be granted/);
    expect(kinds()).toEqual(['store lost, warning']);
    await clock.advance(60_000);
    outages.lost('c', 'refused');
    expect(kinds()).toEqual(['store lost, warning']);
    await clock.advance(60_000);
    outages.back('c', 60_000);
    expect(kinds()).toEqual(['node back, info']);
    outages.back('b', 120_000);
    expect(told[0]!.message).toMatch(/b serves again, after 120\.0 s\. 2 of 3 nodes serve: there is a quorum again, after 120\.0 s\.$/);
    expect(kinds()).toEqual(['store back, info']);
    outages.back('a', 120_000);
    expect(told[0]!.message).toMatch(/3 of 3 nodes serve\.$/);
    expect(kinds()).toEqual(['node back, info']);
  });

  it('and were missing at boot count, without a line of their own', () => {
    const outages = new NodeLog(3, clock, (finding) => told.push(finding));
    outages.missing('a');
    expect(told).toEqual([]);
    outages.lost('b', 'refused');
    expect(kinds()).toEqual(['store lost, warning']);
  });
});

describe('Nodes that forgot', () => {
  it('share a line, which says until when they grant nothing, and another one when they vote again', async () => {
    const log = new NodeLog(5, clock, (finding) => told.push(finding));
    log.forgot('a', 30_000);
    await clock.advance(100);
    log.forgot('b', 60_000);
    await clock.advance(399);
    expect(told).toEqual([]);
    await clock.advance(1);
    const until = new Date(clock.wallNow() + 59_600).toISOString();
    expect(told[0]!.message).toMatch(new RegExp(`^Locks: 2 of 5 Redlock nodes \\(a, b\\) are new, were restarted or flushed\\. They grant nothing until ${until} .* The other nodes are a quorum and go on\\.$`));
    expect(kinds()).toEqual(['nodes forgot, warning']);
    await clock.advance(1_000);
    log.votes('a');
    log.votes('b');
    await clock.advance(500);
    expect(told[0]!.message).toBe('Locks: a, b vote again.');
    expect(kinds()).toEqual(['nodes vote, info']);
    log.votes('a');
    await clock.advance(500);
    expect(told[0]!.message).toBe('Locks: a votes again.');
    kinds();
    log.forgot('c', 0);
    log.votes('c');
    await clock.advance(1_000);
    expect(kinds()).toEqual(['nodes vote, info']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('and are no minority are told so, in both lines', async () => {
    const log = new NodeLog(3, clock, (finding) => told.push(finding));
    log.forgot('a', 0);
    log.forgot('b', 0);
    await clock.advance(500);
    expect(told[0]!.message).toMatch(/They grant nothing until the last fences are told to them\. No lock can be granted until then\./);
    kinds();
    log.quorumForgot(3);
    log.quorumForgot(2);
    log.votes('a');
    await clock.advance(500);
    expect(told[0]!.message).toMatch(/^Locks: a votes again\. 3 of 3 Redlock nodes do not remember what they granted/);
    expect(kinds()).toEqual(['nodes vote, warning']);
    log.votes('b');
    await clock.advance(500);
    expect(kinds()).toEqual(['nodes vote, info']);
  });

  it('one after another leave a quorum each time', async () => {
    const log = new NodeLog(3, clock, (finding) => told.push(finding));
    for (const node of ['a', 'b', 'c']) {
      log.forgot(node, 60_000);
      await clock.advance(500);
      expect(told.splice(0)).toMatchObject([{ message: expect.stringMatching(new RegExp(`1 of 3 Redlock nodes \\(${node}\\).* The other nodes are a quorum and go on\\.$`)) }]);
      log.votes(node);
      await clock.advance(500);
      expect(told.splice(0)).toMatchObject([{ message: `Locks: ${node} votes again.` }]);
    }
  });

  it('are told until when they grant nothing, unless that is over when it is told', async () => {
    const log = new NodeLog(5, clock, (finding) => told.push(finding));
    for (const [leftMs, until] of [[501, 'for 1 ms'], [500, 'until the last fences are told to them']] as const) {
      log.forgot('a', leftMs);
      await clock.advance(500);
      expect(told.splice(0)).toMatchObject([{ message: expect.stringContaining(until) }]);
    }
  });

  it('leave no timer when the log is closed', async () => {
    const log = new NodeLog(3, clock, (finding) => told.push(finding));
    log.close();
    log.forgot('a', 0);
    log.close();
    await clock.advance(1_000);
    expect([told, clock.pendingTimers]).toEqual([[], 0]);
  });
});

describe('The line with which an application starts', () => {
  const node = (name: string, passed: boolean, facts?: object): RedlockNode => ({ name, store: { summary: passed ? {} : undefined, facts } }) as unknown as RedlockNode;
  it('names the nodes, how many decide, and how many did not respond', () => {
    expect(redlockSummary('lock', ['a', 'b', 'c'].map((name) => node(name, true, {})))).toEqual({ place: 'a Redlock of 3 nodes (a, b, c; 2 decide)', prefix: 'lock', off: [], unknown: undefined });
    expect(redlockSummary('lock', [node('a', true, {}), node('b', true, {}), node('c', false)]).place).toBe('a Redlock of 3 nodes (a, b, c; 2 decide, 1 did not respond)');
  });

  it('says where a vote may be evicted, and where nobody knows', () => {
    const summary = redlockSummary('lock', [node('a', true, { evicting: 'allkeys-lru' }), node('b', true), node('c', true, {})]);
    expect(summary.off).toEqual(['safety from eviction on a (maxmemory-policy is allkeys-lru: a vote may be evicted)']);
    expect(summary.unknown).toBe('eviction on b, because the user may not run INFO');
  });
});
