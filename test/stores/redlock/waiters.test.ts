/** Who of a process waits for a lock of a Redlock, and when it is called; and how long it pauses when nobody calls. */
import { describe, expect, it } from '@jest/globals';
import { patienceMs, retryPause, Waiters } from '../../../lib/stores/redlock/waiters.js';

const nodes = [{}, {}, {}, {}, {}] as const;

describe('A process that waits', () => {
  it('asks when a quorum of nodes has called it, and not before', () => {
    const waiters = new Waiters(3);
    waiters.ask('p.1', 'k', 0);
    expect([0, 1, 1, 0].map((at) => waiters.call('k', nodes[at]!, 10))).toEqual([[], [], [], []]);
    expect(waiters.call('k', nodes[4], 11)).toEqual(['p.1']);
    expect(waiters.call('k', nodes[2], 12)).toEqual([]);
  });

  it('does not add up calls of different turns', () => {
    const waiters = new Waiters(2);
    waiters.ask('p.1', 'k', 0);
    expect(waiters.call('k', nodes[0], 0)).toEqual([]);
    expect(waiters.call('k', nodes[1], 5_000)).toEqual([]);
  });

  it('has waited since the first of its requests came that wait, or since one of them was granted the lock', () => {
    const waiters = new Waiters(2);
    expect([waiters.ask('p.1', 'k', 100), waiters.ask('p.1', 'k', 900), waiters.ask('p.2', 'k', 950), waiters.ask('p.3', 'other', 960)]).toEqual([0, 800, 850, 0]);
    waiters.served('k', 960);
    waiters.served('none', 970);
    expect([waiters.ask('p.1', 'k', 1_000), waiters.ask('p.2', 'k', 1_000), waiters.ask('p.3', 'other', 1_000)]).toEqual([40, 40, 40]);
    waiters.leave('p.1', 'k');
    waiters.ask('p.4', 'k', 1_100);
    expect([waiters.ask('p.2', 'k', 1_200), waiters.ask('p.4', 'k', 1_200)]).toEqual([240, 240]);
    waiters.leave('p.2', 'k');
    expect(waiters.ask('p.4', 'k', 1_200)).toBe(100);
  });

  it('leaves nothing behind, and the last one takes the mark away', () => {
    const waiters = new Waiters(2);
    waiters.ask('p.1', 'k', 0);
    waiters.ask('p.2', 'k', 0);
    expect([waiters.leave('p.1', 'k'), waiters.leave('p.1', 'k'), waiters.leave('p.2', 'k')]).toEqual([false, false, true]);
    expect(Reflect.get(waiters, 'lines')).toEqual(new Map());
    expect(waiters.call('k', nodes[0], 0)).toEqual([]);
  });
});

describe('The pause of who was refused', () => {
  const refusal = { waitedMs: 0, tookMs: 0, leftMs: Infinity };
  const pauses = (of: Partial<typeof refusal>): number[] => [0, 1].map((random) => retryPause({ ...refusal, ...of }, random));

  it('is random, and shorter for who has waited longer', () => {
    expect(pauses({})).toEqual([200, 400]);
    expect(pauses({ waitedMs: 500 })).toEqual([125, 250]);
    expect(pauses({ waitedMs: 3_000 })).toEqual([50, 100]);
  });

  it('is long for who has waited for many seconds: the nodes keep its turn and call it', () => {
    expect(pauses({ waitedMs: 5_000 })).toEqual([200, 400]);
    expect(pauses({ waitedMs: 60_000 })).toEqual([400, 800]);
  });

  it('is longer where the nodes are slow, and never longer than a heartbeat', () => {
    expect(pauses({ tookMs: 20 })).toEqual([280, 480]);
    expect(pauses({ tookMs: 2_000 })).toEqual([800, 800]);
  });

  it('ends when the present hold does', () => {
    expect(pauses({ leftMs: 30 })).toEqual([30, 30]);
    expect(pauses({ leftMs: 0 })).toEqual([10, 20]);
  });

  it('is what a node waits for a process that is called, and some more where the way is long', () => {
    expect([0, 25, 10_000].map(patienceMs)).toEqual([150, 250, 500]);
  });
});
