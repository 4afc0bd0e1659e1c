import { describe, expect, it } from '@jest/globals';
import type { Ballot } from '../../../lib/stores/redlock/ballot.js';
import { Ballots } from '../../../lib/stores/redlock/ballots.js';

const ballot = (holder: string, attempt = 1, endsAt = 0, state: Ballot['state'] = 'held'): Ballot => ({ holder, id: `${holder}/${attempt}`, state, standing: { endsAt } }) as unknown as Ballot;

describe('The ballots of a store', () => {
  it('are found by their holder, and by their id unless the holder has a newer one', () => {
    const ballots = new Ballots();
    const [older, newer] = [ballot('p/1', 1, 100), ballot('p/1', 2, 100)];
    ballots.add(older, 0);
    expect([ballots.get('p/1'), ballots.find('p/1/1'), ballots.find('p/1/2'), ballots.find('q/1')]).toEqual([older, older, undefined, undefined]);
    ballots.add(newer, 0);
    expect([ballots.get('p/1'), ballots.find('p/1/1'), ballots.find('p/1/2')]).toEqual([newer, undefined, newer]);
    ballots.remove(older);
    expect(ballots.get('p/1')).toBe(newer);
    ballots.remove(newer);
    expect([ballots.get('p/1'), ballots.size]).toEqual([undefined, 0]);
  });

  it('are forgotten when their leases have ended on every node, two at a time, the longest untouched first', () => {
    const ballots = new Ballots();
    for (const name of ['a', 'b', 'c', 'd']) ballots.add(ballot(name, 1, 100), 0);
    ballots.touch(ballot('a'));
    ballots.touch(ballot('z'));
    ballots.add(ballot('e', 1, 200), 100);
    expect(ballots.size).toBe(5);
    ballots.add(ballot('f', 1, 200), 101);
    expect(['a', 'b', 'c', 'd', 'e', 'f'].filter((name) => ballots.get(name) !== undefined)).toEqual(['a', 'd', 'e', 'f']);
    ballots.clear();
    expect(ballots.size).toBe(0);
  });

  it('that are not decided yet are not forgotten, however long that takes', () => {
    const ballots = new Ballots();
    ballots.add(ballot('a', 1, 100, 'open'), 0);
    ballots.add(ballot('b', 1, 900), 500);
    expect(ballots.size).toBe(2);
  });
});
