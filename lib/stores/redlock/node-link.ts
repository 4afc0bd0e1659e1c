/**
 * The private connections to one node of a Redlock. This class knows which server answers at the node's address, decides
 * whether requests may be sent to it, and runs scripts on it.
 *
 *     away ──(connected, checked, met)──▶ listening ──(a question's time passed)──▶ silent ──(anything heard)──▶ listening
 *       └──(met a server that another node has)──▶ twin ──(connected anew)──▶ away
 *
 * No request is sent to a node that is away or a twin, so that nothing has to be taken back there. A silent node is not asked
 * to vote while the other nodes are enough; requests that it was sent before end with its answer or with its connection.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import { nodeRightsError } from '../wire/access-rule.js';
import { probe } from '../wire/boot-probe.js';
import { giveBackCall, greetCall, voteCall, type BuiltCall } from '../wire/lua.generated.js';
import { Outage } from '../wire/outage.js';
import type { Connect, Connections, Sender } from '../wire/connections.js';
import type { NodeSpot, RedisKeys } from '../wire/redis-keys.js';
import { ScriptRunner, type ScriptCall } from '../wire/script-runner.js';
import { ServerClock } from '../wire/server-clock.js';
import type { ServerFacts } from '../wire/server-facts.js';
import { storeFailure } from '../wire/store-failure.js';
import { WakeChannel } from '../wire/wake-channel.js';
import { Bundles, type TurnEnd } from '../wire/bundles.js';
import type { KnownServers } from './known-servers.js';
import { giveBackArgs, trialRequest, voteArgs } from './node-calls.js';
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

export interface LinkListener {
  contended(ballotId: string, by: string | undefined): void;
  turn(key: string): void;
  lost(ballotId: string): void;
  /** Called at each new connection: it may lead to another server, or to one that was restarted without its data. */
  connected(): void;
}

/** An instant of every server's past: a vote that may not act after it does nothing. */
const LONG_AGO = 1;

export class NodeLink {
  readonly name: string;
  silent = false;
  heardAt = -Infinity;
  /** Why this node is not used until the process is restarted. */
  refused: LockStoreError | undefined;
  opening = false;
  /** The run id of the server on this connection; undefined until the server said it (a frozen server accepts connections and says nothing). */
  runId: string | undefined;
  /** The node that was first to meet this node's server, when both addresses lead to one server. */
  twin: NodeLink | undefined;
  /** What its server said of its set-up when it was checked; undefined when the user may not ask. */
  facts: ServerFacts | undefined;
  readonly serverClock = new ServerClock();
  readonly outage: Outage;
  private readonly connections: Connections;
  private readonly runner: ScriptRunner;
  /** Votes and give-backs: all of one turn of the event loop share a command. */
  private readonly bundles: Bundles;
  private readonly channel: WakeChannel;
  /** The wire format of this node's keys; undefined until the node has been checked. */
  private format: string | null | undefined;

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
      ask: () => void this.runner.command('time', (client) => client.call('time')).catch(() => undefined), // a failure is noted by the runner, which tells the outage
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
    this.connections.commands.onEnd(() => this.ended());
    this.connections.commands.onOpen(() => this.begins());
  }

  /** Connects to the node and checks it. Rejects with LockStoreError, and the client goes on trying to connect. */
  async open(): Promise<void> {
    const { options, connections, runner, channel } = this;
    const { keys } = options;
    this.opening = true;
    try {
      this.facts = await probe({ options, connections, runner, keys, channel });
      const format = await runner.command<string | null>('format', (client) => client.call('get', keys.format));
      await this.probeMemory();
      await this.teachScripts();
      this.format = format;
      this.outage.watch();
    } catch (error) {
      throw storeFailure(error, { what: 'opening', key: undefined, node: this.name });
    } finally {
      this.opening = false;
    }
  }

  /** Whether the node has been connected and checked once. */
  get opened(): boolean {
    return this.format !== undefined;
  }

  get connected(): boolean {
    if (this.options.unchecked) return this.reachable;
    return this.opened && this.refused === undefined && this.reachable && this.runId !== undefined && this.twin === undefined;
  }

  /** Whether there is a connection, whatever the checks found. */
  get reachable(): boolean {
    return this.connections.commands.state.isOpen;
  }

  /** Ends this connection and makes a new one, which may lead to another server. */
  reconnect(): void {
    this.connections.commands.drop();
  }

  /** Whether the node still has this library's wire format: a node that lost its data may have been used by another version first. */
  async keepsFormat(): Promise<boolean> {
    const { format } = this;
    const { keys } = this.options;
    if (typeof format === 'string') await this.runner.command('format', (client) => client.call('set', keys.format, format, 'NX'));
    return (await this.runner.command('format', (client) => client.call('get', keys.format))) === format;
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
    if (this.refused !== undefined || !this.connected) return Promise.reject(this.refusal(call.key));
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
    return this.refused ?? this.failure(this.twin === undefined ? 'not connected' : `the same server as ${this.twin.name}`, key);
  }

  /** Any answer shows that the node is not silent. */
  private heard(receivedAt: number): number {
    this.silent = false;
    this.heardAt = receivedAt;
    return receivedAt;
  }

  private readonly answeredNow = (): number => this.heard(this.options.clock.now());

  /**
   * Loads the scripts of votes and give-backs. A server that does not know a script would get its text in a second request, which
   * later requests may overtake.
   */
  private async teachScripts(): Promise<void> {
    const { runner, options } = this;
    const { keys, process } = options;
    const on = keys.nodeSpotOf('');
    await runner.run(voteCall(on, voteArgs(trialRequest('-', 1), options, 1, undefined, LONG_AGO)), () => undefined);
    await runner.run(giveBackCall(on, giveBackArgs({ id: '-' }, process)), () => undefined);
  }

  /** Asks the server for its run id. Only a Redlock needs it. */
  private async probeMemory(): Promise<void> {
    const { runner, name, options } = this;
    const { keys, maxLeaseMs } = options;
    try {
      await runner.run(greetCall({ epochKey: keys.epoch, fenceKeys: [] }, { maxLeaseMs, floors: [] }), () => undefined);
    } catch (error) {
      throw nodeRightsError(error, name, keys.prefix) ?? error;
    }
  }

  /** The error for a request that was not sent. */
  failure(reason: string, key: string | undefined): LockStoreError {
    const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
    return new LockStoreError(`${subject}: ${this.name} is ${reason}.`, { key, nodes: [{ node: this.name, reason }] });
  }

  private begins(): void {
    if (this.opening) return;
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
