/** The Redlock store keeps the contract on five simulated masters too, with the real scripts and on virtual time: without a server. */
import { SimulatedRedlock } from '../support/simulated-redlock.js';
import { lockStoreContract } from './lock-store.contract.js';

const redlock = new SimulatedRedlock(5);

lockStoreContract({
  name: 'RedlockStore on simulated masters',
  open: async (process) => (await redlock.opened(process)).store,
  leftovers: async () => new Set(redlock.servers.flatMap((server) => server.keys().filter((key) => /^\{lock:.*\}:[lq]:(?!%heard)/.test(key)))).size,
  clock: redlock.clock,
  drive: (test) => redlock.runUntil(test),
  withoutQueue: true,
  withoutTickets: true,
});
