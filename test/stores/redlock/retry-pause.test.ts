import { describe, expect, it } from '@jest/globals';
import { patienceMs, retryPause } from '../../../lib/stores/redlock/retry-pause.js';
import { refusalOf } from '../../../lib/stores/redlock/refusals.js';

/** The shortest and the longest pause of a request. */
const pauses = (waitedMs: number, tookMs: number, leftMs: number): number[] => [0, 1].map((random) => Math.round(retryPause({ waitedMs, tookMs, leftMs }, random)));

describe('The pause of a refused request', () => {
  it.each([
    [0, 0, Infinity, [200, 400]], [500, 0, Infinity, [125, 250]], [1_000, 0, Infinity, [50, 100]], [3_000, 0, Infinity, [50, 100]],
    [5_000, 0, Infinity, [200, 400]], [7_000, 0, Infinity, [400, 800]], [60_000, 0, Infinity, [400, 800]], [0, 50, Infinity, [400, 600]], [0, 150, Infinity, [800, 800]],
  ])('after %i ms of waiting, of nodes that took %i ms, with %d ms left of the lease is from one to the other of %j', (waitedMs, tookMs, leftMs, expected) => {
    expect(pauses(waitedMs, tookMs, leftMs)).toEqual(expected);
  });

  it('is not longer than what is left of the lease, and 10 to 20 ms at least', () => {
    expect(pauses(0, 0, 90)).toEqual([90, 90]);
    expect(pauses(0, 0, 0)).toEqual([10, 20]);
  });
});

describe('The patience of a node', () => {
  it.each([[0, 150], [10, 190], [87.4, 500], [200, 500]])('with a process whose nodes took %d ms is %i ms', (tookMs, patience) => {
    expect(patienceMs(tookMs)).toBe(patience);
  });
});

describe('A request that no node is asked for', () => {
  const request = { key: 'k', id: 'p.1', mode: 'write', leaseMs: 1_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: 100 } as const;
  it('is one to a closed store, one that wants replicas, and one whose time is over', () => {
    expect(refusalOf(request, true, 0)).toMatchObject({ retryable: false, message: expect.stringContaining('after the store was closed') });
    expect(refusalOf({ ...request, minReplicas: 1 }, false, 0)).toMatchObject({ retryable: false, message: expect.stringContaining('minReplicas cannot be counted on a Redlock') });
    expect(refusalOf(request, false, 101)).toMatchObject({ retryable: true, message: expect.stringContaining('only after its time limit') });
    expect(refusalOf(request, false, 100)).toBeUndefined();
  });
});
