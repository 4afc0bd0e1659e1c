import { describe, expect, it } from '@jest/globals';
import type { Wake } from '../../../lib/core/port/lock-store.js';
import type { Ballot } from '../../../lib/stores/redlock/ballot.js';
import { Ballots } from '../../../lib/stores/redlock/ballots.js';
import { NodeNews } from '../../../lib/stores/redlock/node-news.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { Waiters } from '../../../lib/stores/redlock/waiters.js';
import { FakeClock } from '../../support/fake-clock.js';

function setUp(state: Ballot['state'] = 'held') {
  const [ballots, waiters, told, dropped] = [new Ballots(), new Waiters(2), [] as Wake[], [] as Ballot[]];
  const wanted: string[] = [];
  const takenOn = new Set<unknown>();
  const standing = { wantedBy: (by: string) => void wanted.push(by), takenAwayOn: (node: unknown) => takenOn.add(node).size };
  const ballot = { holder: 'p.1', id: 'p.1/1', key: 'k', state, standing } as unknown as Ballot;
  ballots.add(ballot, 0);
  const news = new NodeNews({ ballots, waiters, clock: new FakeClock(), quorum: 2, drop: (one) => void dropped.push(one), tell: (wake) => void told.push(wake) });
  const [one, two] = [{}, {}] as [RedlockNode, RedlockNode];
  return { news, waiters, told, dropped, wanted, ballot, one, two };
}

describe('A message of a node', () => {
  it('that others wait is told to the holder, with the name of who comes next, if it says one', () => {
    const { news, told, wanted } = setUp();
    news.contended('p.1/1', 'q');
    news.contended('p.1/1', undefined);
    news.contended('p.1/2', 'q');
    expect([told, wanted]).toStrictEqual([[{ kind: 'contended', key: 'k', id: 'p.1' }, { kind: 'contended', key: 'k', id: 'p.1' }], ['q']]);
  });

  it('that the turn of this process has come has all its requests ask that were told to wait, when a quorum says so', () => {
    const { news, waiters, told, one, two } = setUp();
    for (const id of ['p.1', 'p.2', 'p.3']) waiters.ask(id, 'k', 0);
    for (const id of ['p.1', 'p.2']) waiters.told(id);
    news.turn(one, 'k');
    expect(told).toEqual([]);
    news.turn(two, 'k');
    expect(told).toEqual([{ kind: 'ask', key: 'k', id: 'p.1' }, { kind: 'ask', key: 'k', id: 'p.2' }]);
  });

  it.each([['held', 0], ['open', 1]] as const)('that the lock was taken away is told when a quorum says so; a ballot that is %s is dropped %i times', (state, drops) => {
    const { news, told, dropped, one, two } = setUp(state);
    news.taken(one, 'p.1/1');
    news.taken(one, 'p.1/1');
    news.taken(two, 'p.1/2');
    expect([told, dropped]).toEqual([[], []]);
    news.taken(two, 'p.1/1');
    expect([told, dropped.length]).toEqual([[{ kind: 'lost', key: 'k', id: 'p.1' }], drops]);
  });
});
