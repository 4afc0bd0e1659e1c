/** Reading and writing in turns, over several processes and one Redis: who is let in together. */
import { afterEach, expect, it } from '@jest/globals';
import { delay, systemClock } from '../../../lib/core/port/clock.js';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore, PATIENT } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const server = forAll(startRedis);
afterEach(closeStores);

async function processNamed(process: string): Promise<LockService> {
  return new LockService({ store: await openRedisStore(server.url, process, PATIENT), process });
}

it('Readers that wait behind each other in one process enter together with the next phase of reading, though a writer waits elsewhere', async () => {
  const [readers, writer, holder] = await Promise.all(['r', 'w', 'h'].map(processNamed));
  const order: string[] = [];
  const held = await holder!.acquire('k');
  const work = (name: string) => async () => {
    order.push(name);
    await delay(systemClock, 50);
  };
  const waiting = async (count: number): Promise<void> => eventually(async () => expect((await holder!.inspect('k')).waiters).toHaveLength(count));
  const calls = [1, 2, 3].flatMap(() => [
    readers!.withLock('k', { mode: 'read' }, work('reader')),
    readers!.withLock('k', { mode: 'read', leaseMs: 5_000 }, work('reader')),
  ]);
  // One place for each kind of lease.
  await waiting(2);
  calls.push(writer!.withLock('k', work('writer')));
  await waiting(3);
  await held.release();
  await eventually(() => expect(order).toContain('reader'));
  calls.push(readers!.withLock('k', { mode: 'read' }, work('late reader')));
  await Promise.all(calls);
  expect(order).toEqual([...new Array<string>(6).fill('reader'), 'writer', 'late reader']);
});
