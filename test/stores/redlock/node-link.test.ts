/** Whether a node of a Redlock is asked, by what is known of its connection and its server; and a node that somebody only looks at. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { RedlockLook } from '../../../lib/cli/redlock-look.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { KnownServers } from '../../../lib/stores/redlock/known-servers.js';
import { NodeLink, type LinkOptions } from '../../../lib/stores/redlock/node-link.js';
import { NodeOutages } from '../../../lib/stores/redlock/node-outages.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import { byIoredis } from '../../../lib/stores/wire/ioredis.js';
import { inspectCall } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { Random } from '../../simulation/random.js';
import { SimClient } from '../../simulation/sim-client.js';
import { FakeClock } from '../../support/fake-clock.js';
import { RedlockRequests } from '../../support/redlock-requests.js';
import { SimulatedRedlock } from '../../support/simulated-redlock.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';

describe('A node of a Redlock', () => {
  const clock = new FakeClock();
  const keys = new RedisKeys('lock');
  const servers = new KnownServers<NodeLink>();
  /** The connection of a test, which opens and ends it. */
  class Wire {
    readonly state = { isOpen: true };
    sent = 0;
    readonly link: NodeLink;
    private ended = (): void => undefined;

    constructor(name: string, options: Partial<LinkOptions> = {}) {
      const commands = {
        sender: { evalsha: async () => void (this.sent += 1) },
        state: this.state,
        start: async () => undefined,
        drop: () => undefined,
        onOpen: () => () => undefined,
        onEnd: (listener: () => void) => (this.ended = listener),
      };
      const connections = { isCluster: false, commands, patienceMs: 1_000, node: name, lastError: undefined, close: () => undefined } as unknown as Connections;
      const outages = new NodeOutages(3, clock, () => undefined);
      const listener = { contended: () => undefined, turn: () => undefined, lost: () => undefined, connected: () => undefined };
      this.link = new NodeLink(() => connections, { ...USUAL_OPTIONS, clock, keys, process: 'p', outages, servers, ...options }, listener);
    }

    /** As a node that was checked, and has said who it is. */
    ready(runId: string): this {
      this.link.check.passed = true;
      this.link.meet(runId);
      return this;
    }

    end(): void {
      this.state.isOpen = false;
      this.ended();
    }

    /** Whether a script was sent to it. */
    async isAsked(): Promise<boolean> {
      const before = this.sent;
      await this.link.run(inspectCall(keys.spotOf('k')), () => undefined).catch(() => undefined);
      return this.sent > before;
    }
  }
  const look = async (wire: Wire): Promise<unknown> => [wire.link.state, wire.link.connected, await wire.isAsked()];

  it('is asked when it is connected, checked, and has said who it is, and no sooner', async () => {
    const wire = new Wire('a');
    expect(await look(wire)).toEqual(['away', false, false]);
    wire.link.meet('server a');
    expect(await look(wire)).toEqual(['away', false, false]);
    wire.link.check.passed = true;
    expect(await look(wire)).toEqual(['listening', true, true]);
    wire.state.isOpen = false;
    expect(await look(wire)).toEqual(['away', false, false]);
    wire.end();
    wire.state.isOpen = true;
    expect(await look(wire)).toEqual(['away', false, false]);
    expect(await look(wire.ready('server a'))).toEqual(['listening', true, true]);
  });

  it('is asked for what only it can answer while it is silent, until anything is heard of it', async () => {
    const wire = new Wire('b').ready('server b');
    wire.link.fellSilent();
    expect([wire.link.state, wire.link.silent, wire.link.connected]).toEqual(['silent', true, true]);
    expect(await wire.isAsked()).toBe(true);
    expect([wire.link.state, wire.link.silent]).toEqual(['listening', false]);
  });

  it('is not asked while it is a second name of another one, or refused', async () => {
    const [first, second] = [new Wire('c').ready('server c'), new Wire('d').ready('server c')];
    expect([await look(first), await look(second)]).toEqual([['listening', true, true], ['twin', false, false]]);
    first.end();
    expect(await look(second.ready('server c'))).toEqual(['listening', true, true]);
    second.link.refuse(new LockStoreError('It must not be used.', { retryable: false }));
    expect(await look(second.ready('server c'))).toEqual(['refused', false, false]);
    await expect(second.link.run(inspectCall(keys.spotOf('k')), () => undefined)).rejects.toThrow('It must not be used.');
  });
});

describe('A node that the command line looks at', () => {
  let redlock: SimulatedRedlock;
  let requests: RedlockRequests;
  let ways: ReturnType<SimulatedRedlock['wayTo']>[];
  let redlockLook: RedlockLook;
  beforeEach(() => {
    jest.spyOn(Math, 'random').mockImplementation(new Random(5).next);
    redlock = new SimulatedRedlock();
    requests = new RedlockRequests(redlock);
    ways = redlock.servers.map((server) => redlock.wayTo(server));
    redlockLook = new RedlockLook(ways.map((way) => byIoredis(SimClient.for(() => way))), { ...USUAL_OPTIONS, clock: redlock.clock, process: 'cli' });
  });
  afterEach(async () => {
    await redlockLook.close();
    await redlock.close();
    jest.restoreAllMocks();
  });
  /** The first question makes a node connect. */
  const connects = async (): Promise<void> => {
    while (ways.some(({ sockets }) => sockets.size === 0)) {
      await requests.failure(redlockLook.inspect('k'));
      await redlock.pass(20);
    }
  };

  it('is asked without any check, and finds nothing new in its data afterwards', async () => {
    const holder = await redlock.opened('p');
    const { fence } = await requests.granted(holder, 'p.1', { leaseMs: 30_000 });
    const before = redlock.servers.map((server) => server.keys());
    await connects();
    expect(await redlock.runUntil(redlockLook.inspect('k'))).toMatchObject({ mode: 'write', holders: [{ id: 'p.1', fence }] });
    expect(redlock.servers.map((server) => server.keys())).toEqual(before);
  });

  it('is waited for, because a vote that came to nothing is no lock', async () => {
    const holder = await redlock.opened('p');
    await requests.granted(holder, 'p.1', { leaseMs: 30_000 });
    for (const server of redlock.servers.slice(1)) server.flush();
    await connects();
    ways[2]!.faults.shortestMs = ways[2]!.faults.longestMs = 100;
    expect(await redlock.runUntil(redlockLook.inspect('k'))).toMatchObject({ mode: null, holders: [] });
  });

  it('and that has never answered is waited for no longer than any other', async () => {
    await connects();
    redlock.servers[2]!.freeze();
    const since = redlock.time.now;
    await redlock.runUntil(redlockLook.inspect('k'));
    expect(redlock.time.now - since).toBeLessThan(600);
  });

  it('is asked for its time anew on a new connection, which may lead to a server with another clock', async () => {
    const holder = await redlock.opened('p');
    await requests.granted(holder, 'p.1', { leaseMs: 30_000 });
    await connects();
    expect(await redlock.runUntil(redlockLook.forceRelease('k'))).toBe(true);
    await requests.granted(holder, 'p.2', { leaseMs: 30_000 });
    for (const server of redlock.servers) server.stepClock(10_000);
    for (const way of ways) way.cut();
    await redlock.pass(500);
    expect(await redlock.runUntil(redlockLook.forceRelease('k'))).toBe(true);
  });
});
