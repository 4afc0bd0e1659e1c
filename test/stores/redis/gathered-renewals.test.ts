/** Renewals that wait for replicas: which of them go together, and what each of them is answered. */
import { describe, expect, it } from '@jest/globals';
import type { RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { GatheredRenewals } from '../../../lib/stores/redis/renewals.js';
import { gate } from '../../support/locks.js';

/** A server whose answers a test gives by hand. Each lease is answered by its own id. */
function stage(largest = 3) {
  const sent: string[] = [];
  const open: ReturnType<typeof gate<Error | undefined>>[] = [];
  const send = async (requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> => {
    sent.push(requests.map(({ id }) => id).join(' '));
    const answer = gate<Error | undefined>();
    open.push(answer);
    const failed = await answer.promise;
    if (failed !== undefined) throw failed;
    return requests.map(({ id }) => id as unknown as RenewOutcome);
  };
  const gathered = new GatheredRenewals(send, largest);
  const renew = (ids: string, together = 'server') => {
    const renewed = gathered.renew(together, ids.split(' ').map((id) => ({ id }) as RenewRequest));
    renewed.catch(() => undefined);
    return renewed;
  };
  /** Answers the oldest command, and lets everything go on that can. */
  const answer = async (failed?: Error) => {
    open.shift()!.open(failed);
    await turn();
  };
  return { sent, renew, answer };
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe('Renewals that replicas must acknowledge', () => {
  it('of one turn of the event loop go together, those that come before the answer with the next command, and each gets its own outcomes', async () => {
    const { sent, renew, answer } = stage();
    const first = [renew('a b'), renew('c')];
    expect(sent).toEqual([]);
    await turn();
    expect(sent).toEqual(['a b c']);
    const second = [renew('d'), renew('e')];
    await turn();
    expect(sent).toHaveLength(1);
    await answer();
    expect(await Promise.all(first)).toEqual([['a', 'b'], ['c']]);
    expect(sent).toEqual(['a b c', 'd e']);
    await answer();
    expect(await Promise.all(second)).toEqual([['d'], ['e']]);
    const third = renew('f');
    await turn();
    expect(sent.at(-1)).toBe('f');
    await answer();
    expect(await third).toEqual(['f']);
  });

  it('of another server wait for nobody', async () => {
    const { sent, renew } = stage();
    void renew('a');
    void renew('b', 'other');
    await turn();
    expect(sent).toEqual(['a', 'b']);
  });

  it('are no more in one command than the largest, unless one call alone asks for more', async () => {
    const { sent, renew, answer } = stage(3);
    const all = ['a b', 'c d', 'e', 'f g h i', 'j'].map((ids) => renew(ids));
    await turn();
    for (let n = 0; n < 4; n += 1) await answer();
    expect(sent).toEqual(['a b', 'c d e', 'f g h i', 'j']);
    expect((await Promise.all(all)).flat().join('')).toBe('abcdefghij');
  });

  it('of which a slot is being moved are sent again call by call, and only what fails then fails', async () => {
    const { sent, renew, answer } = stage();
    const [one, two] = [renew('a b'), renew('c')];
    await turn();
    await answer(new Error('TRYAGAIN Multiple keys request during rehashing of slot'));
    expect(sent).toEqual(['a b c', 'a b']);
    await answer(new Error('TRYAGAIN Multiple keys request during rehashing of slot'));
    await expect(one).rejects.toThrow('TRYAGAIN');
    expect(sent).toEqual(['a b c', 'a b', 'c']);
    await answer();
    expect(await two).toEqual(['c']);
  });

  it('that fail for another reason fail together, and the next ones are sent', async () => {
    const { sent, renew, answer } = stage();
    const failing = [renew('a'), renew('b')];
    await turn();
    const next = renew('c');
    await answer(new Error('not connected'));
    for (const each of failing) await expect(each).rejects.toThrow('not connected');
    expect(sent).toEqual(['a b', 'c']);
    await answer();
    expect(await next).toEqual(['c']);
  });
});
