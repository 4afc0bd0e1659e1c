/**
 * The private connections to one node of a Redlock. This class knows which server answers at the node's address, decides
 * whether requests may be sent to it, and runs scripts on it.
 *
 *     away ──(connected, checked, met)──▶ listening ──(a question's time passed)──▶ silent ──(anything heard)──▶ listening
 *       └──(met a server that another node has)──▶ twin ──(connected anew)──▶ away
 *     any of them ──(its server has a fault that only an operator can fix)──▶ refused, until the process is restarted
 *
 * No request is sent to a node that is away, a twin or refused, so that nothing has to be taken back there. A silent node is not asked
 * to vote while the other nodes are enough; requests that it was sent before end with its answer or with its connection.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import { Bundles, type TurnEnd } from '../wire/bundles.js';
import type { Connect, Connections, Sender } from '../wire/connections.js';
import { type ScriptCall, ScriptRunner } from '../wire/script-runner.js';
import type { BuiltCall } from '../wire/lua.generated.js';
import { Outage } from '../wire/outage.js';
import type { NodeSpot, RedisKeys } from '../wire/redis-keys.js';
import { ServerClock } from '../wire/server-clock.js';
import { WakeChannel } from '../wire/wake-channel.js';
import { WireFormat } from '../wire/wire-format.js';
import type { KnownServers } from './known-servers.js';
import { NodeCheck } from './node-check.js';
import { NodeRequest, type DecodeNow } from './node-request.js';
import type { NodeOutages } from './node-outages.js';
import type { Hear } from './poll.js';

export interface LinkOptions {
  readonly keys: RedisKeys;
  readonly process: string;
  readonly maxLeaseMs: number;
  readonly commandTimeoutMs: number;
  readonly bootTimeoutMs: number;
  readonly clock: Clock;
  readonly report: Report;
  readonly outages: NodeOutages;
  readonly strictServer?: boolean | undefined;
  readonly servers: KnownServers<NodeLink>;
  /** When the requests of this turn of the event loop leave for all nodes. */
  readonly turnEnd?: TurnEnd | undefined;
  /** Nodes may be asked without the checks at boot. Set by the command line, which only reads. */
  readonly unchecked?: boolean | undefined;
}

interface LinkListener {
  contended(ballotId: string, by: string | undefined): void;
  turn(key: string): void;
  lost(ballotId: string): void;
  /** Called at each new connection: it may lead to another server, or to one that was restarted without its data. */
  connected(): void;
}

/** Other classes read the public fields of a link; only the link itself writes them. */
export class NodeLink {
  readonly name: string;
  readonly check: NodeCheck;
  heardAt = -Infinity;
  /** Whether the node has left a question without an answer in time, and has answered nothing since. */
  silent = false;
  /** The run id of the server on this connection; undefined until the server said it (a frozen server accepts connections and says nothing). */
  runId: string | undefined;
  /** The node that was first to meet this node's server, when both addresses lead to one server. */
  twin: NodeLink | undefined;
  readonly serverClock = new ServerClock();
  readonly outage: Outage;
  private readonly connections: Connections;
  private readonly runner: ScriptRunner;
  /** Votes and give-backs: all of one turn of the event loop share a command. */
  private readonly bundles: Bundles;
  private readonly channel: WakeChannel;
  private refusedWith: LockStoreError | undefined;

  constructor(
    connect: Connect,
    private readonly options: LinkOptions,
    private readonly listener: LinkListener,
  ) {
    const { keys, process, commandTimeoutMs, clock } = options;
    this.connections = connect(commandTimeoutMs, clock);
    if (this.connections.isCluster) throw new LockUsageError('Lock options: a node of a Redlock must be a single master, not a Cluster.');
    this.name = this.connections.node;
    this.outage = new Outage(clock, {
      away: (reason) => options.outages.away(this.name, reason),
      back: (afterMs) => options.outages.back(this.name, afterMs),
      // A failure is noted by the runner, which tells the outage.
      ask: () => void this.runner.command('time', (client) => client.call('time')).catch(() => undefined),
    });
    this.runner = new ScriptRunner(this.connections, clock, commandTimeoutMs, this.outage);
    this.bundles = new Bundles(this.runner, options.turnEnd);
    this.channel = new WakeChannel(() => this.connections.subscribe(), [keys.channel(process)], clock, commandTimeoutMs, {
      granted: () => {},
      contended: (_key, id, by) => this.twin === undefined && listener.contended(id, by),
      turn: (key) => this.twin === undefined && listener.turn(key),
      lost: (_key, id) => this.twin === undefined && listener.lost(id),
      listening: () => {},
    });
    const format = new WireFormat({ runner: this.runner, keys, connections: this.connections, clock: options.clock, maxLeaseMs: options.maxLeaseMs });
    this.check = new NodeCheck({ options, connections: this.connections, runner: this.runner, keys, channel: this.channel, format });
    this.connections.commands.onEnd(() => this.ended());
    this.connections.commands.onOpen(() => this.begins());
  }

  /** The state of the node, by its name in the drawing at the head of this file. */
  get state(): 'away' | 'listening' | 'silent' | 'twin' | 'refused' {
    if (this.refusedWith !== undefined) return 'refused';
    if (this.twin !== undefined) return 'twin';
    if (!this.connections.commands.state.isOpen || !this.check.passed || this.runId === undefined) return 'away';
    return this.silent ? 'silent' : 'listening';
  }

  /** Whether requests may be sent to the node. */
  get connected(): boolean {
    if (this.options.unchecked) return this.reachable;
    const { state } = this;
    return state === 'listening' || state === 'silent';
  }

  /** Whether there is a connection, whatever the checks found. */
  get reachable(): boolean {
    return this.connections.commands.state.isOpen;
  }

  /** Ends this connection and makes a new one, which may lead to another server. */
  reconnect(): void {
    this.connections.commands.drop();
  }

  /** Connects to the node and checks it. Rejects with LockStoreError, and the client goes on trying to connect. */
  async open(): Promise<void> {
    await this.check.run();
    this.outage.watch();
  }

  /** Notes that the node did not answer a question in time. */
  fellSilent(): void {
    this.silent = true;
  }

  /** Notes why this node is not used until the process is restarted. */
  refuse(error: LockStoreError): void {
    this.refusedWith = error;
  }

  /** Notes the run id of the server that answers on this connection, and claims the server for this node. */
  meet(runId: string): void {
    this.twin = this.options.servers.claim(this, runId);
    this.runId = runId;
  }

  /** The node's client, for a SCAN over its keys. */
  walk<T>(what: string, send: (server: Sender) => Promise<unknown>): Promise<T> {
    const [server] = this.connections.masters();
    return this.runner.command(what, () => send(server!));
  }

  close(): void {
    this.channel.close();
    this.runner.close();
    this.connections.close();
  }

  /** Runs a script. Rejects without sending anything when the node must not be asked. */
  run<T>(call: ScriptCall, decode: DecodeNow<T>): Promise<T> {
    if (!this.connected) return Promise.reject(this.refusal(call.key));
    return this.send(call, decode);
  }

  /** Runs a script on a connection that has not been checked yet. */
  send<T>(call: ScriptCall, decode: DecodeNow<T>): Promise<T> {
    return this.runner.run(call, (reply, sentAt, receivedAt) => decode(reply, sentAt, this.heard(receivedAt)));
  }

  /** Runs a script for one request about a lock, in one command with all other such requests of this turn of the event loop. */
  runBundled<T>(call: BuiltCall, on: NodeSpot, askedAt: number | undefined, decode: DecodeNow<T>, hear: Hear<T>): void {
    if (!this.connected) return hear({ kind: 'failure', error: this.refusal(on.key) });
    this.bundles.add(call.script, 0, new NodeRequest(call, on, askedAt, decode, hear, this.answeredNow));
  }

  /** Why the node must not be asked. */
  private refusal(key: string | undefined): LockStoreError {
    return this.refusedWith ?? this.failure(this.twin === undefined ? 'not connected' : `the same server as ${this.twin.name}`, key);
  }

  /** Any answer shows that the node is not silent. */
  private heard(receivedAt: number): number {
    this.silent = false;
    this.heardAt = receivedAt;
    return receivedAt;
  }

  private readonly answeredNow = (): number => this.heard(this.options.clock.now());

  /** The error for a request that was not sent. */
  failure(reason: string, key: string | undefined): LockStoreError {
    const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
    return new LockStoreError(`${subject}: ${this.name} is ${reason}.`, { key, nodes: [{ node: this.name, reason }] });
  }

  private begins(): void {
    if (this.check.isUnderWay) return;
    this.channel.follow();
    this.listener.connected();
  }

  private ended(): void {
    this.outage.closed(this.connections.lastError);
    this.serverClock.reset();
    this.runId = undefined;
    this.twin = undefined;
    this.options.servers.leave(this);
  }
}
