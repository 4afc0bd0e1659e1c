/** What this process knows of the memory of its server. */
import { describe, expect, it } from '@jest/globals';
import { Memories } from '../../../lib/stores/redis/memories.js';
import { NO_SERVER, SLOT_GROUPS, UNKNOWN_MEMORY } from '../../../lib/stores/wire/redis-keys.js';

/** The memory of a server that began to remember at this time. */
const memoryOf = (server: string, since = 0) => `${server.repeat(16)}:${String(since).padStart(13, '0')}`;
const ONE = memoryOf('1', 5_000);
const TWO = memoryOf('2', 6_000);

function all(memory: string): Memories {
  const memories = new Memories();
  for (let group = 0; group < SLOT_GROUPS; group++) memories.learn(group, memory, 0);
  return memories;
}

describe('The memories of a server', () => {
  it('are not known before the server has told them', () => {
    const memories = new Memories();
    expect([memories.of(3), memories.knownOf(3), memories.madeBy(3, Infinity), memories.areKnown]).toEqual([UNKNOWN_MEMORY, undefined, undefined, false]);
    expect([all(ONE).of(3), all(ONE).knownOf(SLOT_GROUPS - 1), all(ONE).areKnown]).toEqual([ONE, ONE, true]);
  });

  it('made a grant only when they had begun by then', () => {
    expect([4_999, 5_000, 5_001].map((at) => all(ONE).madeBy(3, at))).toEqual([undefined, ONE, ONE]);
  });

  it('are forgotten with the connection, and are news only where another one was known before', () => {
    const memories = all(ONE);
    expect(memories.learn(3, ONE, 0)).toBeUndefined();
    memories.reset();
    expect([memories.knownOf(3), memories.connection]).toEqual([undefined, 1]);
    expect([memories.learn(3, TWO, 1), memories.learn(4, ONE, 1), memories.knownOf(3)]).toEqual([ONE, undefined, TWO]);
    expect(memories.learn(3, ONE, 1)).toBe(TWO);
    expect(new Memories().learn(3, ONE, 0)).toBeUndefined();
  });

  it('are not learnt from the answer of an earlier connection', () => {
    const memories = all(ONE);
    memories.reset();
    expect([memories.learn(3, TWO, 0), memories.knownOf(3)]).toEqual([undefined, undefined]);
  });

  it('outdate a lease that another one knew, once they are known', () => {
    const memories = all(ONE);
    expect([ONE, TWO, undefined].map((memory) => memories.isOutdated(3, memory))).toEqual([false, true, true]);
    memories.reset();
    expect([ONE, TWO, undefined].map((memory) => memories.isOutdated(3, memory))).toEqual([false, false, false]);
  });

  it('say when a server does not tell who it is', () => {
    const memories = all(ONE);
    expect(memories.areBlind).toBe(false);
    memories.learn(7, `${NO_SERVER}0000000005000`, 0);
    expect(memories.areBlind).toBe(true);
  });
});
