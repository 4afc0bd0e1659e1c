/** What a master must let a process do before it is a node of its Redlock. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { byIoredis } from '../../../lib/stores/wire/ioredis.js';
import { giveBack, greet, vote } from '../../../lib/stores/wire/lua.generated.js';
import { Random } from '../../simulation/random.js';
import { SimClient } from '../../simulation/sim-client.js';
import { Redis } from 'ioredis';
import { refuses, RedlockRequests } from '../../support/redlock-requests.js';
import { SimulatedRedlock } from '../../support/simulated-redlock.js';

let redlock: SimulatedRedlock;
let requests: RedlockRequests;
beforeEach(() => {
  redlock = new SimulatedRedlock();
  requests = new RedlockRequests(redlock);
  // A test is the same run each time.
  jest.spyOn(Math, 'random').mockImplementation(new Random(5).next);
});
afterEach(() => {
  jest.restoreAllMocks();
  return redlock.close();
});

const boot = () => requests.failure(redlock.member('p').store.open());

describe('A boot', () => {
  it('fails where the user may not run INFO, or not read whether the node remembers, and says which right is missing', async () => {
    refuses(redlock.servers[0]!, greet, "NOPERM User app has no permissions to run the 'info' command");
    expect(await boot()).toMatchObject({
      message: expect.stringMatching(/^Locks: redis1:6379 does not allow what a Redlock needs; missing: \+info\. The least rule for its user: .* ~\{lock\}:e /),
      retryable: false,
      nodes: [{ node: 'redis1:6379', reason: expect.stringContaining('NOPERM') }],
    });
    redlock = new SimulatedRedlock();
    requests = new RedlockRequests(redlock);
    refuses(redlock.servers[1]!, greet, 'NOPERM No permissions to access a key');
    expect((await boot()).message).toMatch(/^Locks: redis2:6379 does not allow what a Redlock needs; missing: ~\{lock\}:e\./);
  });

  it('goes on without a node that does not say whether it remembers, and tells what the node said', async () => {
    refuses(redlock.servers[0]!, greet, 'ERR it is broken');
    const { told } = await redlock.opened('p');
    expect(told).toEqual([expect.objectContaining({ message: expect.stringMatching(/^Locks: 1 of 3 Redlock nodes cannot be used now \(redis1:6379: ERR it is broken\)/) })]);
  });

  it('fails where a script may not be run that every lock needs', async () => {
    for (const script of [vote, giveBack]) {
      redlock = new SimulatedRedlock();
      requests = new RedlockRequests(redlock);
      refuses(redlock.servers[2]!, script, "NOPERM User app has no permissions to run the 'evalsha' command");
      expect(await boot()).toMatchObject({ retryable: false, nodes: [{ node: 'redis3:6379', reason: expect.stringContaining('evalsha') }] });
    }
  });

  it('leaves nothing of its trials on the nodes', async () => {
    await redlock.opened('p');
    expect(redlock.servers.map((server) => server.keys().filter((key) => /:[lm]:/.test(key)))).toEqual([[], [], []]);
  });
});

describe('A node of a Redlock', () => {
  it('is a single master, and never a Cluster', () => {
    const ways = redlock.servers.map((server) => redlock.wayTo(server));
    const nodes = [SimClient.for(() => ways[0]!), SimClient.for(() => ways[1]!), { cluster: ['redis://c'] }].map((target) => byIoredis(target, { Redis }));
    expect(() => redlock.member('p', { nodes })).toThrow('Lock options: a node of a Redlock must be a single master, not a Cluster.');
  });
});
