/** The Redlock store keeps the contract on five masters, but for what needs a queue across nodes. */
import { pause, systemClock } from '../../lib/core/port/clock.js';
import type { LockStoreError } from '../../lib/core/port/errors.js';
import type { RedlockStore } from '../../lib/stores/redlock/redlock-store.js';
import { openRedlock, startVoters } from '../support/redlock-store.js';
import { lockStoreContract } from './lock-store.contract.js';
import { forAll } from '../support/started.js';

/** As core does when nodes were too slow to say yes or no: six servers and a crowd share the machine with other tests. */
function asksAgain(store: RedlockStore): RedlockStore {
  const acquire = store.acquire.bind(store);
  store.acquire = async (request) => {
    for (let tries = 1; ; tries++) {
      try {
        return await acquire(request);
      } catch (error) {
        if (!(error as LockStoreError).retryable || systemClock.now() > request.notAfter || tries === 20) throw error;
        await pause(systemClock, 50);
      }
    }
  };
  return store;
}

const masters = forAll(() => startVoters(5));

lockStoreContract({
  name: 'RedlockStore',
  open: async (process) => asksAgain(await openRedlock(masters, process)),
  leftovers: async () => {
    const found = await Promise.all(masters.map((master) => master.client().keys('{lock:*}:[lq]:*')));
    return new Set(found.flat().filter((key) => !key.endsWith(':q:%heard'))).size;
  },
  withoutQueue: true,
  withoutTickets: true,
});
