import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { LockService } from '../../lib/index.js';
import { startApp } from '../nest/application.js';
import { Stock } from './stock.js';
import { database } from './transactional.js';

const twice = (add: () => Promise<unknown>): Promise<unknown> => Promise.all([add(), add()]);

describe('A lock and a transaction', () => {
  it('keep every write when the lock is outside', async () => {
    const app = await startApp({ providers: [Stock] });
    await twice(() => app.get(Stock).add('outside'));
    expect(database.read('outside')).toBe(2);
  });

  it('lose a write when the lock is inside: the next holder reads before the commit', async () => {
    const app = await startApp({ providers: [Stock] });
    await twice(() => app.get(Stock).addAndLose('inside'));
    expect(database.read('inside')).toBe(1);
  });

  it('lose a write when a transaction is around the call of a method that has both in the right order', async () => {
    const app = await startApp({ providers: [Stock] });
    await twice(() => database.transaction(() => app.get(Stock).add('around')));
    expect(database.read('around')).toBe(1);
  });

  it('keep every write when a lock is taken around that transaction, which the method then re-enters', async () => {
    const app = await startApp({ providers: [Stock] });
    const locks = app.get(LockService);
    await twice(() => locks.withLock('stock:both', () => database.transaction(() => app.get(Stock).add('both'))));
    expect(database.read('both')).toBe(2);
  });

  it('are shown in the docs as they are run here', () => {
    const [, shown] = /```ts\n([^]*?)```/.exec(readFileSync('docs/transactions.md', 'utf8')) ?? [];
    expect(shown).toBe(readFileSync('test/docs/stock.ts', 'utf8'));
  });
});
