/** How many commands a process has out to a server when it has hundreds to send. */
import { describe, expect, it } from '@jest/globals';
import { FewAtATime } from '../../../lib/stores/redis/renewals.js';
import { gate } from '../../support/locks.js';

describe('Commands that are sent a few at a time', () => {
  it('wait for the answer of an earlier one to the same server, in order, and never for another server', async () => {
    const few = new FewAtATime(2);
    const sent: string[] = [];
    const answers = new Map<string, ReturnType<typeof gate<void>>>();
    const send = (source: number, name: string): Promise<void> =>
      few.run(source, () => {
        sent.push(name);
        const answer = gate<void>();
        answers.set(name, answer);
        return answer.promise;
      });
    const all = [send(0, 'a'), send(0, 'b'), send(0, 'c'), send(0, 'd'), send(1, 'e')];
    expect(sent).toEqual(['a', 'b', 'e']);
    answers.get('b')!.open();
    await all[1];
    expect(sent).toEqual(['a', 'b', 'e', 'c']);
    for (const name of ['a', 'c']) answers.get(name)!.open();
    await Promise.all([all[0], all[2]]);
    for (const name of ['d', 'e']) answers.get(name)!.open();
    await Promise.all(all);
    expect(sent).toEqual(['a', 'b', 'e', 'c', 'd']);
  });

  it('are followed by the next one also when they fail', async () => {
    const few = new FewAtATime(1);
    const failing = few.run(0, () => Promise.reject(new Error('no answer')));
    const next = few.run(0, async () => 'sent');
    await expect(failing).rejects.toThrow('no answer');
    expect(await next).toBe('sent');
  });

  it('are again as many as before when all were answered', async () => {
    const few = new FewAtATime(2);
    for (let round = 0; round < 3; round += 1) {
      const answer = gate<void>();
      let sent = 0;
      const all = [1, 2, 3, 4, 5].map(() => few.run(0, () => ((sent += 1), answer.promise)));
      expect(sent).toBe(2);
      answer.open();
      await Promise.all(all);
      expect(sent).toBe(5);
    }
  });

  it('are no more than the most also when only some of them were answered', async () => {
    const few = new FewAtATime(2);
    const [first, later] = [gate<void>(), gate<void>()];
    let sent = 0;
    const send = (answer: Promise<void>) => few.run(0, () => ((sent += 1), answer));
    const [answered, ...all] = [send(first.promise), send(later.promise)];
    first.open();
    await answered;
    all.push(send(later.promise), send(later.promise));
    expect(sent).toBe(3);
    later.open();
    await Promise.all(all);
    expect(sent).toBe(4);
  });
});
