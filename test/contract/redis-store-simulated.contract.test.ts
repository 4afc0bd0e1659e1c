/** The Redis store keeps the contract on a simulated server too, with the real scripts and on virtual time: without a server. */
import { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { byIoredis } from '../../lib/stores/wire/ioredis.js';
import { SimClient } from '../simulation/sim-client.js';
import { SimulatedRedlock } from '../support/simulated-redlock.js';
import { USUAL_OPTIONS } from '../support/store-options.js';
import { lockStoreContract } from './lock-store.contract.js';

const machine = new SimulatedRedlock(1);
const [server] = machine.servers;

lockStoreContract({
  name: 'RedisStore on a simulated server',
  open: async (process) => {
    const way = machine.wayTo(server!);
    const connection = byIoredis(SimClient.for(() => way, { host: server!.name }));
    const store = new RedisStore({ ...USUAL_OPTIONS, clock: machine.clock, recoveryMs: 0, connection, process });
    await machine.runUntil(store.open());
    return store;
  },
  leftovers: async () => server!.keys().filter((key) => /^\{lock:.*\}:[lq]:/.test(key)).length,
  clock: machine.clock,
  drive: (test) => machine.runUntil(test),
});
