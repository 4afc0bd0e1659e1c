/** The checker finds what it is there to find, and accuses nobody falsely. */
import { describe, expect, it } from '@jest/globals';
import { checkHistory } from './history-checker.js';
import { formatHistory, type HistoryEvent } from './history.js';
import type { LockMode } from '../../lib/core/port/lock-options.js';

const KEY = 'order:1';

/** A hold from `from`, trusted until `until`. */
function hold(id: string, from: number, until: number, fence: number, how: { mode?: LockMode; owner?: string; permits?: number; fences?: number; asked?: number } = {}): HistoryEvent[] {
  const { mode = 'write', owner, permits, fences = 1, asked = from } = how;
  return [
    { kind: 'asked', at: asked, key: KEY, id, mode, owner, permits },
    { kind: 'granted', at: from, key: KEY, id, mode, fence, fences, trustedUntil: until },
  ];
}

const then = (kind: 'queued' | 'left' | 'released' | 'lost' | 'downgraded', id: string, at: number): HistoryEvent => ({ kind, at, key: KEY, id });
const renewed = (id: string, at: number, trustedUntil: number): HistoryEvent => ({ kind: 'renewed', at, key: KEY, id, trustedUntil });
const rules = (...events: HistoryEvent[][]): string[] => checkHistory(events.flat()).map(({ rule }) => rule);

describe('The history checker', () => {
  it('finds two writers that trusted at one time, and a writer beside a reader', () => {
    expect(rules(hold('a.1', 0, 100, 1), hold('b.1', 99, 200, 2))).toEqual(['overlap']);
    expect(rules(hold('a.1', 0, 100, 1, { mode: 'read' }), hold('b.1', 50, 60, 2))).toEqual(['overlap']);
    const [found] = checkHistory([...hold('a.1', 0, 100, 1), ...hold('b.1', 99, 200, 2)]);
    expect(found).toMatchObject({ key: KEY, message: expect.stringContaining('a.1 trusted its write lease from 0 until 100') });
  });

  it('accepts another hold while a request asks again whose grant its process did not take, and not after it was granted anew', () => {
    const again: HistoryEvent = { kind: 'asked', at: 10, key: KEY, id: 'a.1', mode: 'write' };
    expect(rules(hold('a.1', 0, 100, 1), [again], hold('b.1', 20, 60, 2))).toEqual([]);
    expect(rules(hold('a.1', 0, 100, 1), [again], hold('b.1', 20, 60, 2), hold('a.1', 50, 90, 3).slice(1))).toEqual(['overlap']);
  });

  it('accepts holds that follow each other, readers that share, and holds of one owner', () => {
    expect(rules(hold('a.1', 0, 100, 1), hold('b.1', 100, 200, 2))).toEqual([]);
    expect(rules(hold('a.1', 0, 100, 1, { mode: 'read' }), hold('b.1', 50, 200, 2, { mode: 'read' }))).toEqual([]);
    expect(rules(hold('a.1', 0, 100, 1, { owner: 'x' }), hold('b.1', 50, 200, 1, { owner: 'x' }))).toEqual([]);
    expect(rules(hold('a.1', 0, 100, 1, { owner: 'x' }), hold('b.1', 50, 200, 2, { owner: 'y' }))).toEqual(['overlap']);
  });

  it('accepts as many holds at a time as there are permits, and finds one more, another number, and one without', () => {
    const two = [hold('a.1', 0, 100, 1, { permits: 2 }), hold('b.1', 50, 150, 2, { permits: 2 })];
    expect(rules(...two, hold('c.1', 100, 200, 3, { permits: 2 }))).toEqual([]);
    expect(rules(...two, hold('c.1', 99, 200, 3, { permits: 2 }))).toEqual(['permits']);
    expect(rules(two[0]!, hold('c.1', 99, 200, 3, { permits: 3 }))).toEqual(['overlap']);
    expect(rules(two[0]!, hold('c.1', 99, 200, 3))).toEqual(['overlap']);
  });

  it('compares the fence of a permit with those that ended before it was asked for, and its turn by the fences', () => {
    const early = hold('a.1', 0, 40, 5, { permits: 2 });
    expect(rules(early, hold('b.1', 60, 150, 4, { permits: 2, asked: 0 }))).toEqual([]);
    expect(rules(early, hold('b.1', 60, 150, 4, { permits: 2, asked: 50 }))).toEqual(['fence']);
    const waiter = (fence: number): HistoryEvent[] => [...hold('w.1', 90, 150, fence, { permits: 2, asked: 10 }), then('queued', 'w.1', 20)];
    expect(rules(waiter(6), hold('b.1', 95, 150, 7, { permits: 2, asked: 30 }))).toEqual([]);
    expect(rules(waiter(7), hold('b.1', 95, 150, 6, { permits: 2, asked: 30 }))).toEqual(['order']);
  });

  it('counts trust from a grant to the release, the loss, or the end of the last renewal', () => {
    expect(rules(hold('a.1', 0, 100, 1), [then('released', 'a.1', 40)], hold('b.1', 50, 90, 2))).toEqual([]);
    expect(rules(hold('a.1', 0, 100, 1), [then('lost', 'a.1', 60)], hold('b.1', 50, 90, 2))).toEqual(['overlap']);
    expect(rules(hold('a.1', 0, 100, 1), [renewed('a.1', 50, 150)], hold('b.1', 120, 200, 2))).toEqual(['overlap']);
    expect(rules(hold('a.1', 0, 100, 1), [renewed('a.1', 50, 150), then('released', 'a.1', 60)], hold('b.1', 70, 200, 2))).toEqual([]);
  });

  it('ignores the answer to a renewal that comes after the release', () => {
    expect(rules(hold('a.1', 0, 100, 1), [then('released', 'a.1', 40), renewed('a.1', 45, 145)], hold('b.1', 50, 90, 2))).toEqual([]);
  });

  it('finds trust that came back after it had ended for everybody else', () => {
    expect(rules(hold('a.1', 0, 100, 1), [renewed('a.1', 130, 230)], hold('b.1', 101, 200, 2))).toEqual(['overlap']);
  });

  it('lets readers in beside a writer from its downgrade on, not before', () => {
    const writer = [...hold('a.1', 0, 100, 1), then('downgraded', 'a.1', 50)];
    expect(rules(writer, hold('b.1', 50, 90, 2, { mode: 'read' }))).toEqual([]);
    expect(rules(writer, hold('b.1', 49, 90, 2, { mode: 'read' }))).toEqual(['overlap']);
    expect(rules(writer, hold('b.1', 60, 90, 2))).toEqual(['overlap']);
  });

  it('does not mix up keys', () => {
    const other = hold('b.1', 50, 90, 1).map((event) => ({ ...event, key: 'order:2' }));
    expect(rules(hold('a.1', 0, 100, 1), other)).toEqual([]);
  });

  it('finds a fence that repeats, goes back, or lies within a block that was reserved before', () => {
    const first = hold('a.1', 0, 100, 10, { fences: 5 });
    expect(rules(first, hold('b.1', 100, 200, 15))).toEqual([]);
    for (const fence of [9, 10, 14]) expect(rules(first, hold('b.1', 100, 200, fence))).toEqual(['fence']);
    expect(rules(first, hold('b.1', 100, 200, 15), hold('c.1', 200, 300, 15))).toEqual(['fence']);
  });

  it('compares the fence of a reader with writers before it, and of a writer with all', () => {
    const readers = [...hold('a.1', 0, 50, 3, { mode: 'read' }), ...hold('b.1', 60, 90, 2, { mode: 'read' })];
    expect(rules(readers)).toEqual([]);
    expect(rules(readers, hold('c.1', 100, 200, 3))).toEqual(['fence']);
    expect(rules(hold('a.1', 0, 50, 3), hold('b.1', 60, 90, 2, { mode: 'read' }))).toEqual(['fence']);
  });

  it('accepts the fence that an owner shares with a hold of its own which ended', () => {
    const joined = [...hold('a.1', 0, 40, 7, { owner: 'x' }), ...hold('b.1', 40, 90, 7, { owner: 'x' })];
    expect(rules(joined)).toEqual([]);
    expect(rules(joined, hold('c.1', 90, 99, 7))).toEqual(['fence']);
  });

  it('accuses nobody of a grant that was heard only when its trust was over', () => {
    expect(rules(hold('a.1', 50, 90, 5), hold('b.1', 95, 60, 4))).toEqual([]);
  });

  it('finds a writer that was served before one that waited already when it asked', () => {
    const waited = [...hold('a.1', 100, 150, 2, { asked: 0 }), then('queued', 'a.1', 5)];
    expect(rules(waited, hold('b.1', 50, 60, 1, { asked: 10 }))).toEqual(['order']);
    expect(rules(waited, hold('b.1', 160, 170, 3, { asked: 10 }))).toEqual([]);
  });

  it('knows no order between requests that were under way together, after a place was lost, or for owners and readers', () => {
    const waited = [...hold('a.1', 100, 150, 2, { asked: 0 }), then('queued', 'a.1', 5)];
    expect(rules(waited, hold('b.1', 50, 60, 1, { asked: 4 }))).toEqual([]);
    expect(rules(waited, [then('left', 'a.1', 8)], hold('b.1', 50, 60, 1, { asked: 10 }))).toEqual([]);
    expect(rules(waited, hold('b.1', 50, 60, 1, { asked: 10, owner: 'x' }))).toEqual([]);
    expect(rules(waited, hold('b.1', 50, 60, 1, { asked: 10, mode: 'read' }))).toEqual([]);
  });

  it('keeps the order of a writer that downgraded later', () => {
    const waited = [...hold('a.1', 100, 150, 2, { asked: 0 }), then('queued', 'a.1', 5), then('downgraded', 'a.1', 120)];
    expect(rules(waited, hold('b.1', 50, 60, 1, { asked: 10 }))).toEqual(['order']);
  });

  it('takes a grant that is told twice for one', () => {
    const [asked, granted] = hold('a.1', 10, 100, 1);
    expect(rules([asked!, granted!, { ...granted!, at: 20 }], hold('b.1', 100, 200, 2))).toEqual([]);
  });

  it('refuses a history in which somebody holds who never asked, and prints one as text', () => {
    expect(() => checkHistory([then('released', 'a.1', 1)])).toThrow("'a.1' is released at 1, but never asked");
    expect(formatHistory(hold('a.1', 0, 100, 1))).toMatch(/ 0\.000 {2}order:1 {2}a\.1 +granted +\{"mode":"write","fence":1,"fences":1,"trustedUntil":100\}/);
  });
});
