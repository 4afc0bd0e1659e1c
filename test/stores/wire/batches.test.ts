import { describe, expect, it } from '@jest/globals';
import { inBatches } from '../../../lib/stores/wire/batches.js';
import { gate } from '../../support/locks.js';

describe('A list that is sent in batches', () => {
  it('is answered in its order, though the batches have what belongs together, up to the limit', async () => {
    const sent: number[][] = [];
    const send = async (batch: readonly number[]) => {
      sent.push([...batch]);
      return batch.map((item) => `answer to ${item}`);
    };
    expect(await inBatches([10, 21, 11, 12, 20], (item) => Math.floor(item / 10), 2, send)).toEqual([10, 21, 11, 12, 20].map((item) => `answer to ${item}`));
    expect(sent).toEqual([[10, 11], [21, 20], [12]]);
  });

  it('is sent at once: no batch waits for the answer to another one', async () => {
    const answered = gate();
    let sent = 0;
    const answers = inBatches([1, 2, 3], (item) => item, 10, async (batch) => {
      sent += 1;
      await answered.promise;
      return batch;
    });
    expect(sent).toBe(3);
    answered.open();
    expect(await answers).toEqual([1, 2, 3]);
  });

  it('rejects as a batch does', async () => {
    await expect(inBatches([1, 2], (item) => item, 1, ([item]) => (item === 2 ? Promise.reject(new Error('refused')) : Promise.resolve([item])))).rejects.toThrow('refused');
  });
});
