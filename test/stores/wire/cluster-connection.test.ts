/** The connections to a Cluster, on virtual time, where a test speaks for the nodes: when they count as ended. */
import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { Bundles, BundledRequest } from '../../../lib/stores/wire/bundles.js';
import type { Spot } from '../../../lib/stores/wire/redis-keys.js';
import type { ClusterEntry } from '../../../lib/stores/wire/cluster-connection.js';
import { connectingBy, routeByNodes, type Connection } from '../../../lib/stores/wire/connections.js';
import { release } from '../../../lib/stores/wire/lua.generated.js';
import { Outage } from '../../../lib/stores/wire/store-failure.js';
import { ScriptRunner } from '../../../lib/stores/wire/script-runner.js';
import type { Client, Sender, Source } from '../../../lib/stores/wire/server-connection.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A Cluster of one node, which has all slots. */
class OneNode {
  /** Whether it says who has the slots. */
  saysSlots = true;
  /** Whether it says for some slots only, as a node does in the middle of a failover. */
  isFailingOver = false;
  /** Whether it sends commands elsewhere, as a node does whose slots have moved. */
  moves = false;
  /** Whether it knows its own host. A node that does not names only the port. */
  knowsHost = true;
  /** Whether it cannot be reached. */
  isGone = false;
  /** How many were made to it. */
  connections = 0;
  /** Says nothing until this is resolved. */
  silence: Promise<void> | undefined;
  private readonly listeners = new Set<(error: Error) => void>();
  readonly source: Source = {
    address: { host: '127.0.0.1', port: 7001 },
    make: ({ failed, ended }) => {
      this.listeners.add((error) => {
        failed(error);
        ended();
      });
      return this.client();
    },
  };

  private client(): Client {
    this.connections += 1;
    const sender: Sender = { call: (command, what) => this.answers(`${command.toUpperCase()} ${what}`) };
    return { sender, connect: () => (this.isGone ? Promise.reject(new Error('connect ECONNREFUSED')) : Promise.resolve()), destroy: () => {}, subscribe: () => Promise.resolve() };
  }

  /** Ends all connections. */
  breaks(): void {
    for (const tell of [...this.listeners]) tell(new Error('Socket closed unexpectedly'));
    this.listeners.clear();
  }

  private async answers(command: string): Promise<unknown> {
    await this.silence;
    if (command === 'CLUSTER SLOTS') {
      if (this.saysSlots) return [[0, this.isFailingOver ? 8_191 : 16_383, ['127.0.0.1', 7001]]];
      throw new Error('ERR it is not known who has the slots');
    }
    if (command === 'GET k' && this.moves) {
      this.moves = false;
      throw new Error(`MOVED 7629 ${this.knowsHost ? '127.0.0.1' : ''}:7001`);
    }
    return 'OK';
  }
}

/** Two masters, of which the first is cut off from the second and a replica that has taken its slots over: it serves nothing, and says what was before. */
class CutOff {
  isCutOff = false;
  readonly target: ClusterEntry = {
    roots: [this.source(7001)],
    ofNodes: { address: {}, make: ({ address }) => this.client(address.port!) },
    map: (address) => address,
  };

  /** The keys of scripts that were written to the second master, write by write. */
  readonly written: string[][] = [];
  private corked: string[] | undefined;

  private source(port: number): Source {
    return { address: { host: '127.0.0.1', port }, make: () => this.client(port) };
  }

  private client(port: number): Client {
    const call = async (command: string, ...[, , scriptKey]: (string | number)[]): Promise<unknown> => {
      if (command === 'cluster') return [[0, 8_191, ['127.0.0.1', this.isCutOff && port !== 7001 ? 7003 : 7001]], [8_192, 16_383, ['127.0.0.1', 7002]]];
      if (port === 7002 && command.startsWith('eval')) this.corked === undefined ? this.written.push([String(scriptKey)]) : this.corked.push(String(scriptKey));
      if (this.isCutOff && port === 7001 && command === 'GET') throw new Error('CLUSTERDOWN The cluster is down');
      return port;
    };
    const cork = (): void => void (this.corked = []);
    const uncork = (): void => {
      this.written.push(this.corked!);
      this.corked = undefined;
    };
    return { sender: { call }, connect: () => Promise.resolve(), destroy: () => {}, subscribe: () => Promise.resolve(), cork, uncork };
  }
}

interface Stage {
  readonly node: OneNode;
  readonly connection: Connection;
  readonly told: string[];
  readonly clock: FakeClock;
  get(key: string): Promise<unknown>;
}

/** Commands may take 2 s, so that a node is given up after a silence of 1.5 s. */
function connectTo(cluster: ClusterEntry, clock: FakeClock) {
  const connections = connectingBy(routeByNodes(cluster))(2_000, clock);
  const runner = new ScriptRunner(connections, clock, 2_000, new Outage(clock, { away: () => {}, back: () => {} }, () => {}));
  return { connections, connection: connections.commands, runner, get: (key: string) => runner.command(['GET', key], key) };
}

function onStage(play: (stage: Stage) => Promise<void>): () => Promise<void> {
  const [clock, node] = [new FakeClock(), new OneNode()];
  const { connections, connection, get } = connectTo({ roots: [node.source], ofNodes: node.source, map: (address) => address }, clock);
  const told: string[] = [];
  connection.events.on('open', () => told.push('open'));
  connection.events.on('end', () => told.push('end'));
  connection.events.on('problem', ({ message }) => told.push(message));
  connections.commands.events.on('change', () => told.push('change'));
  return () => clock.runUntil(play({ node, connection, told, clock, get }).finally(() => connections.close()));
}

class OneKey extends BundledRequest {
  readonly script = release;
  readonly what = release.name;
  readonly redisKey = this.spot.lockKey;
  protected done = undefined;

  constructor(readonly spot: Spot, readonly askedAt: number) {
    super();
  }

  text(): string {
    return '1';
  }

  answered(): void {}
}

describe('The connection to a Cluster', () => {
  it('has not ended while its nodes serve, though none of them says who has the slots', onStage(async ({ node, connection, told, clock, get }) => {
    await connection.start();
    Object.assign(node, { saysSlots: false, moves: true });
    expect(await get('k')).toBe('OK');
    await pause(clock, 1_000);
    expect(connection.isOpen).toBe(true);
    expect(told).toContain('ERR it is not known who has the slots');
    expect(told).not.toContain('end');
  }));

  it('asks until each slot has a master, which for a moment of a failover is not so, and serves the others meanwhile', onStage(async ({ node, connection, told, clock, get }) => {
    node.isFailingOver = true;
    void connection.start();
    await pause(clock, 1_000);
    expect([await get('k'), told.at(-1)]).toEqual(['OK', 'some slots have no master']);
    await expect(get('a')).rejects.toThrow('some slots have no master');
    node.isFailingOver = false;
    await pause(clock, 200);
    expect(await get('a')).toBe('OK');
  }));

  it('follows a redirection that names only a port to the host that was asked', onStage(async ({ node, connection, get }) => {
    await connection.start();
    const { connections } = node;
    Object.assign(node, { moves: true, knowsHost: false });
    expect(await get('k')).toBe('OK');
    expect(node.connections).toBe(connections);
  }));

  it('has ended when no node serves, and tells that again at each try that fails', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    node.saysSlots = false;
    node.breaks();
    expect(connection.isOpen).toBe(false);
    expect(told.filter((news) => news !== 'change').slice(0, 3)).toEqual(['open', 'Socket closed unexpectedly', 'end']);
    node.saysSlots = true;
    await pause(clock, 1_000);
    expect([told.at(-1), connection.isOpen]).toEqual(['open', true]);
  }));

  it('leaves a node that owes an answer and says nothing', onStage(async ({ node, connection, told, clock, get }) => {
    await connection.start();
    node.silence = new Promise(() => {});
    get('k').catch(() => {});
    await pause(clock, 1_600);
    expect(told).toContain('no answer within 1500 ms');
  }));

  it('keeps a node whose answers wait to be read because this process alone was late', onStage(async ({ node, connection, told, clock, get }) => {
    await connection.start();
    let answer = (): void => {};
    node.silence = new Promise((resolve) => (answer = resolve));
    // What has come is read behind the timers of the same turn.
    const { setTimer } = clock;
    clock.setTimer = (callback, ms) => setTimer.call(clock, () => (callback(), answer()), ms);
    const sent = get('k');
    await pause(clock, 1_600);
    expect(await sent).toBe('OK');
    expect(told.filter((news) => news !== 'change')).toEqual(['open']);
  }));

  it('says once that other servers may answer where a node has ended, however often it cannot be reached then', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    node.isGone = true;
    told.length = 0;
    node.breaks();
    await pause(clock, 5_000);
    expect(told.filter((news) => news === 'end').length).toBeGreaterThan(10);
    expect(told.filter((news) => news === 'change').length).toBeLessThan(5);
  }));

  it('writes what one turn of the event loop sends to a node at once', async () => {
    const [cluster, clock] = [new CutOff(), new FakeClock()];
    const { connections, connection, runner } = connectTo(cluster.target, clock);
    await connection.start();
    const bundles = new Bundles(runner);
    const keys = Array.from({ length: 10 }, (_, n) => `{k1}:${n}`);
    const answers = keys.map(
      (lockKey, shard) =>
        new Promise((answered, failed) => {
          const spot = { key: lockKey, group: shard, lockKey, queueKey: lockKey, fenceKey: lockKey, redisKeys: [lockKey, lockKey, lockKey], shard };
          bundles.add(Object.assign(new OneKey(spot, clock.now()), { answered, failed }));
        }),
    );
    await clock.runUntil(Promise.all(answers));
    expect(cluster.written).toEqual([keys.slice(0, 1), keys.slice(1)]);
    connections.close();
  });

  it('C3: follows the others where one master is cut off from them and says what was before', async () => {
    const [clock, cluster] = [new FakeClock(), new CutOff()];
    const { connections, connection, get } = connectTo(cluster.target, clock);
    await clock.runUntil(
      (async () => {
        await connection.start();
        expect(await get('k')).toBe(7001);
        const subscribers = Array.from({ length: 20 }, () => connections.subscribe({ channels: [], hear: () => {} }));
        await Promise.all(subscribers.map((subscriber) => subscriber.start()));
        const ports = (): Set<unknown> => new Set(subscribers.map(({ source }) => source!.address.port));
        expect(ports().has(7001)).toBe(true);
        cluster.isCutOff = true;
        // The core asks again like this.
        const served = (): Promise<unknown> => get('k').catch(() => pause(clock, 100).then(served));
        expect(await served()).toBe(7003);
        expect(await get('a')).toBe(7002);
        // Who would listen to the former master would not hear that the others have lost their memory.
        await pause(clock, 1_000);
        expect(ports().has(7001)).toBe(false);
        for (const subscriber of subscribers) subscriber.close();
      })().finally(() => connections.close()),
    );
  });
});
