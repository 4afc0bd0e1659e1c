/**
 * The store over one Redis, Sentinel or Cluster. Each verb of the port is one script on the keys of one slot. This file connects the
 * parts with each other and with the events of the connection, and asks the questions that need no part of their own.
 */
import type { Clock } from '../../core/port/clock.js';
import type { Report, StoreEvent } from '../../core/port/lock-events.js';
import type { AcquireOutcome, AcquireRequest, Doubt, HeartbeatOutcome, HeldLease, HolderRef, LockStore, ReleaseRequest, RenewOutcome, RenewRequest, StoreCapabilities, StoreSummary, Wake } from '../../core/port/lock-store.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import { ticketsOf, type TicketStore } from '../../core/port/ticket.js';
import { Acquiring, type AcquiringParts } from './acquiring.js';
import { probe, type ServerFacts } from '../wire/boot-probe.js';
import { DamagedLocks } from '../wire/damaged-locks.js';
import { Bundles, type TurnEnd } from '../wire/bundles.js';
import { HeartbeatCommands } from './heartbeat-commands.js';
import { listLocks } from './lock-listing.js';
import { lockState } from '../wire/lock-reply.js';
import { downgradeCall, inspectCall, readDowngrade } from '../wire/lua.generated.js';
import { Outage, type OutageListener } from '../wire/outage.js';
import { BringingBack } from './bringing-back.js';
import { Memories } from './memories.js';
import { Recovery } from './recovery.js';
import { Places } from './places.js';
import type { Connect, Connections } from '../wire/connections.js';
import { checkProcess, RedisKeys, Spots } from '../wire/redis-keys.js';
import { PushedGrants } from './pushed-grants.js';
import { redisSummary, type Summarized, outageNews, RecoveryNews, warnOfBlindness, canTellWhoListens } from './server-news.js';
import { Releases } from './releases.js';
import { Renewals } from './renewals.js';
import { ScriptRunner } from '../wire/script-runner.js';
import { ToldHolds } from './told-holds.js';
import { storeFailure } from '../wire/store-failure.js';
import { takeTrialLock, trialOf } from '../wire/trial-lock.js';
import { forceRelease } from './force-release.js';
import { Trust } from './trust.js';
import { WakeChannel, type WakeListener } from '../wire/wake-channel.js';
import { WireFormat } from '../wire/wire-format.js';

export interface RedisStoreOptions extends Summarized {
  readonly connection: Connect;
  /** The name of this process: the part of its holder ids before their last dot. */
  readonly process: string;
  readonly maxLeaseMs: number;
  readonly commandTimeoutMs: number;
  readonly bootTimeoutMs: number;
  readonly clock: Clock;
  /** Receives findings for operators, such as an outage, or a server that may evict locks. */
  readonly report: Report;
  /** Whether a server that may evict locks is an error at boot. */
  readonly strictServer?: boolean | undefined;
  /** Given for a node of a Redlock. */
  readonly redlock?: RedlockSurroundings | undefined;
}

/** What a node of a Redlock is given by it. */
interface RedlockSurroundings {
  /** When the requests of this turn of the event loop leave for all nodes. */
  readonly turnEnd: TurnEnd;
  readonly outages: Pick<OutageListener, 'away' | 'back'>;
  /** Called when the node keeps a free lock for this process, which has waited longest there. */
  turn(key: string): void;
}

/** The source of all locks (see Spot) when one server answers for all of them. In a Cluster each slot group has a source of its own. */
const ONE_SERVER = 0;
/** The source of a clock sample from any master of a Cluster. It is no lock's: such a sample only bounds until when requests may act. */
const ANY_MASTER = -1;

/** What the parts of a store share, and a node of a Redlock with them. */
type StoreParts = Omit<AcquiringParts, 'renewals'> & { readonly runner: ScriptRunner; readonly keys: RedisKeys };

export class RedisStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  readonly tickets: TicketStore;
  readonly acquire: (request: AcquireRequest) => Promise<AcquireOutcome>;
  readonly release: (request: ReleaseRequest) => Promise<'released' | 'lost'>;
  private readonly releases: Releases;
  readonly forceRelease: (key: string, fence?: number) => Promise<boolean>;
  summary: StoreSummary | undefined;
  /** What the server said of its set-up when the store was opened; undefined when the user may not ask. */
  facts: ServerFacts | undefined;
  readonly server: string;
  readonly recovery: Recovery;
  private readonly recoveryNews: RecoveryNews;
  protected readonly parts: StoreParts;
  private readonly keys: RedisKeys;
  protected readonly connections: Connections;
  private readonly outage: Outage;
  private readonly runner: ScriptRunner;
  private readonly trust: Trust;
  private readonly memories = new Memories();
  protected readonly format: WireFormat;
  private readonly bringingBack: BringingBack;
  private readonly places = new Places();
  private readonly damaged: DamagedLocks;
  private readonly acquiring: Acquiring;
  private readonly pushedGrants: PushedGrants;
  private readonly heartbeats: HeartbeatCommands;
  private readonly channel: WakeChannel;
  private listener: (wake: Wake) => void = () => {};
  private readonly doubters: ((doubt: Doubt) => Promise<void> | void)[] = [];
  /** The leases that are held. */
  private held: () => Iterable<HolderRef & Pick<HeldLease, 'memory'>> = () => [];

  constructor(protected readonly options: RedisStoreOptions) {
    const { connection, prefix, process, maxLeaseMs, commandTimeoutMs: timeoutMs, clock, recoveryMs, report } = options;
    checkProcess(process);
    this.damaged = new DamagedLocks(report, clock);
    const keys = (this.keys = new RedisKeys(prefix));
    const connections = (this.connections = connection(timeoutMs, clock));
    this.server = connections.node;
    const { node, isCluster } = connections;
    this.capabilities = { queue: true, replicas: true, permits: true, maxLeaseMs, groupOf: isCluster ? (key) => keys.groupOf(key) : undefined };
    const { outages = outageNews(node, report), turnEnd } = options.redlock ?? {};
    const outage = (this.outage = new Outage(clock, { ...outages, ask: () => void this.readClock() }));
    const runner = (this.runner = new ScriptRunner(connections, clock, timeoutMs, outage));
    // In a Cluster each slot group may have another master; else one server answers for all groups.
    const sourceOf = (group: number): number => (isCluster ? group : ONE_SERVER);
    const trust = (this.trust = new Trust(sourceOf));
    const around = { runner, keys, trust, clock, node, isCluster, prefix, process, maxLeaseMs, recoveryMs, timeoutMs };
    this.format = new WireFormat({ ...around, connections });
    const { memories } = this;
    const recovery = (this.recovery = new Recovery({ ...around, memories, held: () => this.held(), review: (doubt) => this.doubted(doubt), forgot: (group, before, memory) => this.serverForgot(group, before, memory) }));
    this.recoveryNews = new RecoveryNews(node, clock, report, recovery);
    const parts = (this.parts = { ...around, memories, recovery, places: this.places, toldHolds: new ToldHolds(maxLeaseMs), bundles: new Bundles(runner, turnEnd), spots: new Spots(keys, sourceOf) });
    const renewals = new Renewals(parts);
    const releases = (this.releases = new Releases(parts));
    this.bringingBack = new BringingBack({ ...parts, renewals, releases });
    this.release = releases.release;
    this.acquiring = new Acquiring({ ...parts, renewals });
    this.acquire = this.acquiring.acquire;
    this.forceRelease = (key, fence) => forceRelease(key, fence, parts);
    this.tickets = ticketsOf(this, `redis ${prefix}`);
    this.pushedGrants = new PushedGrants({ ...parts, acquiring: this.acquiring, tell: (wake) => this.listener(wake) });
    this.heartbeats = new HeartbeatCommands({ ...parts, missed: (id) => this.channel.missed(id) });
    this.channel = new WakeChannel(() => connections.subscribe(), [keys.channel(process), keys.channelOfAll], clock, timeoutMs, this.messages());
    this.followConnections();
  }

  async open(): Promise<void> {
    const { options, connections, runner, keys, channel, format, recovery } = this;
    const deadline = options.clock.now() + options.bootTimeoutMs;
    try {
      this.facts = await probe({ options, connections, runner, keys, channel, format, memories: recovery });
      this.summary = redisSummary(options, connections, this.facts);
      if (options.redlock === undefined) {
        await recovery.recovered(deadline - options.clock.now());
        warnOfBlindness(this.memories, connections.node, options.recoveryMs, options.report);
        this.acquiring.needsListener = await canTellWhoListens(runner, connections, keys.channel(options.process), options.report);
      }
      this.outage.watch();
    } catch (error) {
      await this.close();
      throw storeFailure(error, { what: 'opening', key: undefined, node: connections.node });
    }
  }

  onWake(listener: (wake: Wake) => void): void {
    this.listener = listener;
  }

  onEvent(listener: (event: StoreEvent) => void): void {
    this.recoveryNews.listener = listener;
  }

  onDoubt(listener: (doubt: Doubt) => Promise<void> | void, held?: () => Iterable<HolderRef & Pick<HeldLease, 'memory'>>): void {
    this.doubters.push(listener);
    if (held !== undefined) this.held = held;
  }

  mayHaveForgotten({ key, memory }: HolderRef & Pick<HeldLease, 'memory'>): boolean {
    return this.memories.isOutdated(this.keys.groupOf(key), memory);
  }

  whenSent(keys: readonly string[], done: () => void): void {
    this.releases.whenSent(keys, done);
  }

  /** The name of the memory that the server has of this key; undefined while it has not said so on the present connection. */
  memoryOf(key: string): string | undefined {
    return this.memories.knownOf(this.keys.groupOf(key));
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const outcomes = await this.bringingBack.renew(requests);
    outcomes.forEach(({ kind }, at) => {
      // A grant with a used fence is replaced by a new request of the same id. If a message had made it a lease before, that lease is
      // lost here, and the place of the new request goes with it.
      if (kind === 'lost') this.places.drop(requests[at]!.id);
    });
    return outcomes;
  }

  heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    this.channel.check();
    return this.heartbeats.heartbeat(waiters);
  }

  downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const spot = this.keys.spotOf(key);
    const call = downgradeCall(spot, { id, floor: this.trust.floors.of(spot.group), recoveryMs: this.options.recoveryMs });
    return this.runner.run({ ...call, key }, readDowngrade);
  }

  inspect(key: string, timeoutMs?: number): Promise<LockState> {
    return this.runner.run({ ...inspectCall(this.keys.spotOf(key)), key, timeoutMs }, (reply) => lockState(key, reply));
  }

  list(options: ListOptions = {}): AsyncIterable<LockState> {
    return listLocks(this.runner, this.connections, this.keys, options.startsWith ?? '', (key) => this.inspect(key), this.damaged);
  }

  tryOut(): Promise<void> {
    const { process, maxLeaseMs, recoveryMs } = this.options;
    return takeTrialLock(trialOf(process, this.keys), this.runner, maxLeaseMs, recoveryMs);
  }

  async close(): Promise<void> {
    this.recovery.close();
    this.recoveryNews.close();
    this.channel.close();
    this.runner.close();
    this.connections.close();
  }

  /** What becomes of the messages of the server. */
  private messages(): WakeListener {
    const { recovery } = this;
    return {
      granted: (grant) => this.pushedGrants.came(grant),
      contended: (key, id) => this.listener({ kind: 'contended', key, id }),
      lost: (key, id) => this.listener({ kind: 'lost', key, id }),
      turn: (key) => this.options.redlock?.turn(key),
      forgot: (group, memory) => recovery.heard(group, memory),
      // An older snapshot may have leases with earlier ends, also where no fence shows it: so everything that is held is renewed.
      flushed: this.options.recoveryMs === 0 ? undefined : () => {
        recovery.doubt();
        void this.doubted('replaced');
      },
      listening: () => {
        recovery.doubt();
        this.askAll();
      },
    };
  }

  /** Forgets what the server said when a connection ends or begins, because another server may answer now, and asks it anew. */
  private followConnections(): void {
    const { connections, trust, memories, releases, recovery, outage, keys } = this;
    connections.onChange((isConcerned) => {
      trust.reset();
      memories.reset();
      releases.reset();
      // Of a Cluster one node has changed, and the others serve on.
      if (connections.commands.state.isOpen) recovery.doubt((group) => isConcerned(keys.fence(group)));
    });
    connections.commands.onEnd(() => outage.closed(connections.lastError));
    connections.commands.onOpen(() => {
      // What is held comes before everything else.
      recovery.doubt(() => true, true);
      // The server's time is read at once, because requests on a new connection need it to say until when they may act.
      void this.readClock();
      this.channel.follow();
      this.runner.follow();
    });
  }

  private async doubted(doubt: Doubt): Promise<void> {
    await Promise.all(this.doubters.map(async (listener) => listener(doubt)));
  }

  /** Who waits asks again, which tells the server who holds the lock; and processes with another wire format must not boot now. */
  private serverForgot(group: number, before: string, memory: string): void {
    // A Redlock has words of its own for a node that forgot.
    if (this.options.recoveryMs > 0 && this.options.redlock === undefined) this.recoveryNews.forgot(before, memory);
    for (const { group: itsGroup, request: { key, id } } of this.places.all()) if (itsGroup === group) this.listener({ kind: 'ask', key, id });
    void this.format.keep(() => this.recovery.isOpen, this.options.report);
  }

  private async readClock(): Promise<void> {
    const source = this.connections.isCluster ? ANY_MASTER : ONE_SERVER;
    const read = this.runner.timed<[string, string], void>('time', (client) => client.call('time'), ([seconds, micros], sentAt, receivedAt) => {
      this.trust.clock.observe(source, { sentAt, receivedAt, serverNow: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) });
    });
    await read.catch(() => undefined); // The next reply of a script brings the time as well.
  }

  private askAll(): void {
    for (const { request } of this.places.all()) this.listener({ kind: 'ask', key: request.key, id: request.id });
  }
}
