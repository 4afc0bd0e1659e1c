/** The connections to a Cluster, on virtual time, where a test speaks for the nodes: when they count as ended. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { ClusterConnection, type ClusterEntry } from '../../../lib/stores/wire/cluster-connection.js';
import { senderOf, type Client, type Source } from '../../../lib/stores/wire/server-connection.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A Cluster of one node, which has all slots. */
class OneNode {
  /** Whether it says who has the slots. */
  saysSlots = true;
  /** Whether it sends commands elsewhere, as a node does whose slots have moved. */
  moves = false;
  /** Whether it knows its own host. A node that does not names only the port. */
  knowsHost = true;
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
    const sender = senderOf(([command, what]) => this.answers(`${command!.toUpperCase()} ${what}`));
    return { sender, connect: () => Promise.resolve(), destroy: () => {}, subscribe: () => Promise.resolve() };
  }

  /** Ends all connections. */
  breaks(): void {
    for (const tell of [...this.listeners]) tell(new Error('Socket closed unexpectedly'));
    this.listeners.clear();
  }

  private async answers(command: string): Promise<unknown> {
    await this.silence;
    if (command === 'CLUSTER SLOTS') {
      if (this.saysSlots) return [[0, 16_383, ['127.0.0.1', 7001]]];
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

  /** What was written to the second master, piece by piece. */
  readonly written: string[][] = [];
  private corked: string[] | undefined;

  private source(port: number): Source {
    return { address: { host: '127.0.0.1', port }, make: () => this.client(port) };
  }

  private client(port: number): Client {
    const sender = senderOf(async ([command, key]): Promise<unknown> => {
      if (command === 'cluster') return [[0, 8_191, ['127.0.0.1', this.isCutOff && port !== 7001 ? 7003 : 7001]], [8_192, 16_383, ['127.0.0.1', 7002]]];
      if (port === 7002 && command === 'GET') this.corked === undefined ? this.written.push([key!]) : this.corked.push(key!);
      if (this.isCutOff && port === 7001 && command === 'GET') throw new Error('CLUSTERDOWN The cluster is down');
      return port;
    });
    const cork = (): void => {
      this.corked = [];
    };
    const uncork = (): void => {
      this.written.push(this.corked!);
      this.corked = undefined;
    };
    return { sender, connect: () => Promise.resolve(), destroy: () => {}, subscribe: () => Promise.resolve(), cork, uncork };
  }
}

interface Stage {
  readonly node: OneNode;
  readonly connection: ClusterConnection;
  readonly told: string[];
  readonly clock: FakeClock;
}

function onStage(play: (stage: Stage) => Promise<void>): () => Promise<void> {
  const clock = new FakeClock();
  const node = new OneNode();
  const target = { roots: [node.source], ofNodes: node.source, map: (address: { host: string; port: number }) => address };
  const connection = new ClusterConnection(target, { clock, timeoutMs: 2_000 }, 1_000);
  const told: string[] = [];
  connection.onOpen(() => told.push('open'));
  connection.onEnd(() => told.push('end'));
  connection.onError(({ message }) => told.push(message));
  return () => clock.runUntil(play({ node, connection, told, clock }).finally(() => connection.close()));
}

describe('The connection to a Cluster', () => {
  it('has not ended while its nodes serve, though none of them says who has the slots', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    Object.assign(node, { saysSlots: false, moves: true });
    expect(await connection.sender.call('GET', 'k')).toBe('OK');
    await delay(clock, 1_000);
    expect(connection.state.isOpen).toBe(true);
    expect(told).toContain('ERR it is not known who has the slots');
    expect(told).not.toContain('end');
  }));

  it('follows a redirection that names only a port to the host that was asked', onStage(async ({ node, connection }) => {
    await connection.start();
    const { connections } = node;
    Object.assign(node, { moves: true, knowsHost: false });
    expect(await connection.sender.call('GET', 'k')).toBe('OK');
    expect(node.connections).toBe(connections);
  }));

  it('has ended when no node serves, and tells that again at each try that fails', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    node.saysSlots = false;
    node.breaks();
    expect(connection.state.isOpen).toBe(false);
    expect(told.slice(0, 3)).toEqual(['open', 'Socket closed unexpectedly', 'end']);
    node.saysSlots = true;
    await delay(clock, 1_000);
    expect([told.at(-1), connection.state.isOpen]).toEqual(['open', true]);
  }));

  it('leaves a node that owes an answer and says nothing', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    node.silence = new Promise(() => {});
    connection.sender.call('GET', 'k').catch(() => {});
    await delay(clock, 1_100);
    expect(told).toContain('Connection is closed.');
  }));

  it('keeps a node whose answers wait to be read because this process alone was late', onStage(async ({ node, connection, told, clock }) => {
    await connection.start();
    let answer = (): void => {};
    node.silence = new Promise((resolve) => (answer = resolve));
    // What has come is read behind the timers of the same turn.
    const { setTimer } = clock;
    clock.setTimer = (callback, ms) => setTimer.call(clock, () => (callback(), answer()), ms);
    const sent = connection.sender.call('GET', 'k');
    await delay(clock, 1_100);
    expect(await sent).toBe('OK');
    expect(told).toEqual(['open']);
  }));

  it('writes what is sent together in pieces of up to eight commands to each node, and everything else at once', async () => {
    const cluster = new CutOff();
    const clock = new FakeClock();
    const connection = new ClusterConnection(cluster.target, { clock, timeoutMs: 2_000 }, 1_000);
    await connection.start();
    const keys = Array.from({ length: 10 }, (_, n) => `{k1}:${n}`);
    await clock.runUntil(Promise.all([connection.sender.call('GET', '{k1}:a'), connection.sender.call('GET', '{k1}:b')]));
    let sent: Promise<unknown>[] = [];
    connection.inFewWrites(() => (sent = keys.map((key) => connection.sender.call('GET', key))));
    expect(cluster.written).toEqual([['{k1}:a'], ['{k1}:b'], keys.slice(0, 8), keys.slice(8)]);
    await clock.runUntil(Promise.all(sent));
    connection.close();
  });

  it('C3: follows the others where one master is cut off from them and says what was before', async () => {
    const clock = new FakeClock();
    const cluster = new CutOff();
    const connection = new ClusterConnection(cluster.target, { clock, timeoutMs: 2_000 }, 1_000);
    await clock.runUntil(
      (async () => {
        await connection.start();
        expect(await connection.sender.call('GET', 'k')).toBe(7001);
        cluster.isCutOff = true;
        expect(await connection.sender.call('GET', 'k')).toBe(7003);
        expect(await connection.sender.call('GET', 'a')).toBe(7002);
      })().finally(() => connection.close()),
    );
  });
});
