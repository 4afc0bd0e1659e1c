/**
 * async-mutex: what callers of one process would use if there were no other process.
 */
import { requirePeer, type Contender } from './contender.js';

export const asyncMutex: Contender = {
  name: 'async-mutex',
  sends: [],
  sendsBesides: 0,
  async open() {
    const { Mutex } = requirePeer('async-mutex');
    const mutexes = new Map<string, any>();
    return {
      withLock(key, work) {
        let mutex = mutexes.get(key);
        if (!mutex) mutexes.set(key, (mutex = new Mutex()));
        return mutex.runExclusive(work);
      },
      close: async () => {},
    };
  },
};
