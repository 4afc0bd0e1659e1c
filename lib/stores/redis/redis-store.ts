/**
 * The store over one Redis, Sentinel or Cluster. Each verb of the port is one script on the keys of one slot. This file connects the
 * parts, sends releases and questions, and turns the messages of the server into wakes.
 */
import type { Clock } from '../../core/port/clock.js';
import type { Report } from '../../core/port/report.js';
import type { StoreRecovery, StoreSummary } from '../../core/port/store-summary.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import type {
  AcquireOutcome,
  AcquireRequest,
  Doubt,
  HeldLease,
  HeartbeatOutcome,
  HolderRef,
  LockStore,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  Wake,
} from '../../core/port/lock-store.js';
import { Acquiring } from './acquiring.js';
import { probe } from '../wire/boot-probe.js';
import { DamagedLocks } from '../wire/damaged-locks.js';
import { Bundles } from '../wire/bundles.js';
import { GivingBack } from './giving-back.js';
import { Heartbeats } from './heartbeats.js';
import { listLocks } from './lock-listing.js';
import { lockState } from '../wire/lock-reply.js';
import { downgradeCall, forceReleaseCall, inspectCall, release } from '../wire/lua.generated.js';
import { Outage } from '../wire/outage.js';
import { BringingBack } from './bringing-back.js';
import { Memories } from './memories.js';
import { Places } from './places.js';
import type { Connect, Connections } from '../wire/connections.js';
import { checkProcess, RedisKeys } from '../wire/redis-keys.js';
import { redisSummary, type Summarized } from './redis-summary.js';
import { Renewals } from './renewals.js';
import { ScriptRunner } from '../wire/script-runner.js';
import { outageNews, warnOfBlindness } from './server-news.js';
import { Spots } from './spots.js';
import { storeFailure } from '../wire/store-failure.js';
import { takeTrialLock, trialOf } from '../wire/trial-lock.js';
import { RedisTickets } from './tickets.js';
import { Trust } from './trust.js';
import { canTellWhoListens } from './who-listens.js';
import { WakeChannel, type PushedGrant } from '../wire/wake-channel.js';

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
}

/** The group of a clock sample from any master. Such a sample bounds until when requests may act, and no trust is counted from it. */
const ANY_GROUP = -1;

export class RedisStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  readonly tickets: RedisTickets;
  summary: StoreSummary | undefined;
  readonly recovery: StoreRecovery;
  private readonly keys: RedisKeys;
  private readonly connections: Connections;
  private readonly outage: Outage;
  private readonly runner: ScriptRunner;
  private readonly trust: Trust;
  private readonly memories: Memories;
  private readonly bringingBack: BringingBack;
  private readonly places = new Places();
  private readonly damaged: DamagedLocks;
  private readonly bundles: Bundles;
  private readonly spots: Spots;
  private readonly acquiring: Acquiring;
  private readonly heartbeats: Heartbeats;
  private readonly channel: WakeChannel;
  private listener: (wake: Wake) => void = () => {};
  private doubted: (doubt: Doubt) => void = () => {};

  constructor(private readonly options: RedisStoreOptions) {
    const { connection, prefix, process, maxLeaseMs, commandTimeoutMs, clock, recoveryMs } = options;
    checkProcess(process);
    this.damaged = new DamagedLocks(options.report, clock);
    const keys = (this.keys = new RedisKeys(prefix));
    const connections = (this.connections = connection(commandTimeoutMs, clock));
    const outage = (this.outage = new Outage(clock, outageNews(connections.node, options.report, () => void this.readClock())));
    const runner = (this.runner = new ScriptRunner(connections, clock, commandTimeoutMs, outage));
    const { node, isCluster } = connections;
    this.capabilities = { queue: true, replicas: true, permits: true, maxLeaseMs, groupOf: isCluster ? (key) => keys.groupOf(key) : undefined };
    // In a Cluster each slot group may have another master; else one server answers for all groups.
    const sourceOf = (group: number): number => (isCluster ? group : 0);
    const trust = (this.trust = new Trust(sourceOf));
    const memories = (this.recovery = this.memories = new Memories({ runner, keys, trust, clock, node, isCluster, recoveryMs, changed: () => this.doubted('where it says so') }));
    const spots = (this.spots = new Spots(keys, sourceOf));
    this.bundles = new Bundles(runner);
    const renewals = new Renewals({ runner, keys, trust, memories, node, maxLeaseMs, sourceOf, timeoutMs: commandTimeoutMs });
    this.bringingBack = new BringingBack({ runner, keys, trust, renewals, memories, clock, node, maxLeaseMs, recoveryMs, sourceOf, timeoutMs: commandTimeoutMs });
    const release = (request: ReleaseRequest): Promise<'released' | 'lost'> => this.release(request);
    this.acquiring = new Acquiring({ bundles: this.bundles, spots, places: this.places, trust, memories, renewals, clock, node, maxLeaseMs, recoveryMs, release });
    this.tickets = new RedisTickets({ runner, spots, trust, memories, renewals, acquiring: this.acquiring, clock, isCluster, prefix, maxLeaseMs, recoveryMs });
    this.heartbeats = new Heartbeats({ runner, keys, places: this.places, trust, memories, node, sourceOf, maxLeaseMs, recoveryMs, missed: (id) => this.channel.missed(id) });
    this.channel = new WakeChannel(() => connections.subscribe(), [keys.channel(process), keys.channelOfAll], clock, commandTimeoutMs, {
      granted: (grant) => this.pushed(grant),
      contended: (key, id) => this.listener({ kind: 'contended', key, id }),
      lost: (key, id) => this.listener({ kind: 'lost', key, id }),
      forgot: (memory) => memories.hear(memory),
      // An older snapshot may have leases with earlier ends, also where no fence shows it: so everything that is held is renewed.
      flushed: recoveryMs === 0 ? undefined : () => {
        memories.recall();
        this.doubted('replaced');
      },
      listening: () => {
        memories.recall();
        this.askAll();
      },
    });
    connections.onChange(() => {
      trust.reset();
      memories.reset();
      // Of a Cluster one node may have changed, and the others serve on.
      if (connections.commands.state.isOpen) memories.recallAfterChange();
    });
    connections.commands.onEnd(() => outage.closed(connections.lastError));
    connections.commands.onOpen(() => {
      // The server's time is read at once, because requests on a new connection need it to say until when they may act.
      void this.readClock();
      this.channel.follow();
      memories.recallSoon();
      this.doubted('all');
    });
  }

  async open(): Promise<void> {
    const { options, connections, runner, keys, channel, memories } = this;
    try {
      const facts = await probe({ options, connections, runner, keys, channel, memories });
      this.summary = redisSummary(options, connections, facts);
      await memories.recovered(options.bootTimeoutMs);
      warnOfBlindness(memories, connections.node, options.recoveryMs, options.report);
      this.acquiring.needsListener = await canTellWhoListens(runner, connections, keys.channel(options.process), options.report);
      this.outage.watch();
    } catch (error) {
      await this.close();
      throw storeFailure(error, { what: 'opening', key: undefined, node: connections.node });
    }
  }

  onWake(listener: (wake: Wake) => void): void {
    this.listener = listener;
  }

  onDoubt(listener: (doubt: Doubt) => void): void {
    this.doubted = listener;
  }

  mayHaveForgotten({ key, memory }: HolderRef & HeldLease): boolean {
    return this.memories.isOutdated(this.keys.groupOf(key), memory);
  }

  acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.acquiring.acquire(request);
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const outcomes = await this.bringingBack.renew(requests);
    outcomes.forEach(({ kind }, at) => {
      // A grant with a used fence is given back and asked for anew, but its message may have made it a lease: its new place is dropped.
      if (kind === 'lost') this.places.release(requests[at]!.id);
    });
    return outcomes;
  }

  heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    this.channel.check();
    return this.heartbeats.heartbeat(waiters);
  }

  release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    const { places, bundles, spots, trust, memories, options } = this;
    if (places.count > 0) places.release(request.id);
    const spot = spots.of(request.key);
    return new Promise((resolve, reject) => {
      bundles.add(release, spot.source, new GivingBack(request, spot, options.recoveryMs, trust.floors, memories, resolve, reject));
    });
  }

  downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const spot = this.keys.spotOf(key);
    const call = downgradeCall(spot, { id, floor: this.trust.floors.of(spot.group), recoveryMs: this.options.recoveryMs });
    return this.runner.run({ ...call, key }, (reply) => (reply === 1 ? 'downgraded' : 'lost'));
  }

  forceRelease(key: string, fence?: number): Promise<boolean> {
    const spot = this.keys.spotOf(key);
    const call = forceReleaseCall(spot, { fence, floor: this.trust.floors.of(spot.group), recoveryMs: this.options.recoveryMs });
    return this.runner.run({ ...call, key }, (reply) => reply === 1);
  }

  inspect(key: string): Promise<LockState> {
    return this.runner.run({ ...inspectCall(this.keys.spotOf(key)), key }, (reply) => lockState(key, reply));
  }

  list(options: ListOptions = {}): AsyncIterable<LockState> {
    return listLocks(this.runner, this.connections, this.keys, options.startsWith ?? '', (key) => this.inspect(key), this.damaged);
  }

  tryOut(): Promise<void> {
    const { process, maxLeaseMs, recoveryMs } = this.options;
    return takeTrialLock(trialOf(process, this.keys), this.runner, maxLeaseMs, recoveryMs);
  }

  async close(): Promise<void> {
    this.memories.close();
    this.channel.close();
    this.runner.close();
    this.connections.close();
  }

  private async readClock(): Promise<void> {
    const read = this.runner.timed<[string, string], void>('time', (client) => client.call('time'), ([seconds, micros], sentAt, receivedAt) => {
      this.trust.observe(ANY_GROUP, { sentAt, receivedAt, serverNow: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) });
    });
    await read.catch(() => undefined); // the next reply of a script brings the time as well
  }

  private pushed(push: PushedGrant): void {
    const { key, id } = push;
    const place = this.places.get(id);
    if (place === undefined) {
      const underway = this.acquiring.underway(id);
      if (underway === undefined) return this.stray(push);
      underway.early = push;
      return;
    }
    if (!place.answered) return void (place.early = push);
    const grant = this.trust.pushed(place, push, this.options.clock.now());
    if (grant === undefined) return this.listener({ kind: 'ask', key, id });
    this.places.forget(place);
    this.listener({ kind: 'granted', key, id, grant });
  }

  /** Handles a grant to an id that is not known here. Only an id of this process is released, whatever a message says. */
  private stray({ key, id }: PushedGrant): void {
    if (id.startsWith(`${this.options.process}.`)) this.listener({ kind: 'stray', key, id });
  }

  private askAll(): void {
    for (const { request } of this.places.all()) this.listener({ kind: 'ask', key: request.key, id: request.id });
  }
}
