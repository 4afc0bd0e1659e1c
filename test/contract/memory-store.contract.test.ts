/** The embedded store keeps the contract. One store stands for both processes, and time passes as fast as it can. */
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../support/fake-clock.js';
import { lockStoreContract } from './lock-store.contract.js';

const clock = new FakeClock();
let store: MemoryStore;

lockStoreContract({
  name: 'MemoryStore',
  // The first process opens the store, and the second one gets the same.
  open: async (process) => (process === 'a' ? (store = new MemoryStore(clock)) : store),
  leftovers: async () => store.size,
  clock,
  drive: (test) => clock.runUntil(test),
});
