/**
 * The store over one Redis, Sentinel or Cluster. Each verb of the port but `list` is one script; in a Cluster on the keys of one slot group.
 * This file connects the parts with each other and with the events of the connection, and asks the questions that need no part of their own.
 */
import type { Clock } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { Report, StoreEvent } from '../../core/port/lock-events.js';
import type {
  DoubtListener, HolderRef, LeaseRef, LockStore, RenewOutcome, RenewRequest, StoreCapabilities, StoreSummary, Wake,
} from '../../core/port/lock-store.js';
import { type HolderState, type ListOptions, type LockState, untilFree } from '../../core/port/lock-state.js';
import { isTicketId } from '../../core/port/ticket.js';
import { canTellWhoListens, probe, takeTrialLock, warnOfBlindness } from './boot-probe.js';
import type { Connect } from '../wire/connections.js';
import { downgradeCall, forceReleaseCall, inspectCall, readDowngrade, readForceRelease, readInspect } from '../wire/lua.generated.js';
import { KEYS_PER_SCAN, UNKNOWN_MEMORY } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO } from '../wire/server-clock.js';
import { isOfOneLock, isTryAgain, NOT_CONNECTED, type OutageListener } from '../wire/store-failure.js';
import type { WakeListener } from '../wire/wake-channel.js';
import { Recovery } from './recovery.js';
import { Renewals } from './renewals.js';
import { Requests } from './requests.js';
import { type FenceFloors, remoteRedis, type RemoteRedis } from './remote-redis.js';

export interface RedisStoreOptions {
  /** The prefix of every Redis key and channel. */
  readonly prefix: string;
  /** How long the server grants nothing new after it forgot, in ms; 0 for no recovery; `'lease'`: as long as the longest lease of any process. */
  readonly recoveryMs: number | 'lease';
  /** The default of calls. */
  readonly minReplicas?: number | undefined;
  readonly connection: Connect;
  /** The name of this process: the part of its holder ids before their last dot. */
  readonly process: string;
  readonly maxLeaseMs: number;
  readonly commandTimeoutMs: number;
  readonly bootTimeoutMs: number;
  readonly clock: Clock;
  /** Receives findings for operators, such as an outage, or a server that may evict locks. */
  readonly report: Report;
  /** True if a server that may evict locks is an error at boot. */
  readonly strictServer?: boolean | undefined;
  /** Given to a node of a Redlock: what this process has seen of the fences of all nodes, and who hears of its outages. */
  readonly redlock?: { readonly floors: FenceFloors; readonly outages: OutageListener } | undefined;
}

export class RedisStore implements LockStore {
  readonly redis: RemoteRedis = remoteRedis(this.options);
  readonly server = this.redis.node;
  readonly capabilities: StoreCapabilities = {
    queue: true, replicas: true, permits: true, groupOf: this.redis.isCluster ? (key) => this.redis.keys.groupOf(key) : undefined,
  };
  readonly ticketHome = `redis ${this.options.prefix}`;
  summary: StoreSummary | undefined;
  readonly recovery = new Recovery(this.redis, (group) => this.serverForgot(group));
  private readonly renewals = new Renewals(this.redis, this.recovery);
  readonly requests = new Requests(this.redis, this.renewals, this.recovery);
  readonly acquire = this.requests.acquire;
  readonly release = this.requests.release;

  constructor(private readonly options: RedisStoreOptions) {
    this.followConnections();
  }

  async open(): Promise<void> {
    const { options, recovery, requests, redis, redis: { runner, outage } } = this;
    const deadline = options.clock.now() + options.bootTimeoutMs;
    try {
      this.summary = await probe({ ...options, ...redis, recovery, messages: this.messages() });
      if (options.redlock === undefined) {
        await recovery.recovered(deadline - options.clock.now());
        warnOfBlindness(redis);
        requests.needsListener = await canTellWhoListens(redis);
      }
      outage.watch();
    } catch (error) {
      await this.close();
      throw runner.failureOf(error, { what: 'opening' });
    }
  }

  onWake(listener: (wake: Wake) => void): void {
    this.requests.wake = listener;
  }

  onEvent(listener: (event: StoreEvent) => void): void {
    this.recovery.listener = listener;
  }

  onDoubt(listener: DoubtListener, held?: () => Iterable<LeaseRef>): void {
    this.recovery.onDoubt(listener, held);
  }

  mayHaveForgotten({ key, memory }: LeaseRef): boolean {
    return this.redis.memories.isOutdated(this.redis.keys.groupOf(key), memory);
  }

  whenSent(done: () => void): void {
    this.redis.bundles.whenSent(done);
  }

  /** The name of the memory that the server has of this key; undefined while it has not said so on the present connection. */
  memoryOf(key: string): string | undefined {
    const memory = this.redis.memories.known[this.redis.keys.groupOf(key)];
    return memory === UNKNOWN_MEMORY ? undefined : memory;
  }

  renew(request: RenewRequest): Promise<RenewOutcome> {
    return this.renewals.renew(request);
  }

  /**
   * It takes the lock from whoever has it when the server acts, so it acts in time or not at all: a copy that the network held up would take
   * it from a later holder, after its caller was told that it had failed.
   */
  async forceRelease(key: string, fence?: number): Promise<boolean> {
    const { runner, trust, clock, node, timeoutMs, recoveryMs, keys, readClock } = this.redis;
    const on = keys.spotOf(key);
    const until = clock.now() + timeoutMs;
    const limit = (): number => trust.clock.lowerBound(on.shard, until, clock.now());
    if (limit() === 0) await readClock();
    const call = forceReleaseCall(on, { fence, floor: trust.floors.highest[on.group]!, recoveryMs, notAfter: limit() || LONG_AGO });
    const { kind } = await runner.run({ ...call, key, namesNobody: fence === undefined }, readForceRelease);
    if (kind === 'late') throw lateError(key, node);
    return kind === 'taken';
  }

  downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const spot = this.redis.keys.spotOf(key);
    const call = downgradeCall(spot, { id, floor: this.redis.trust.floors.highest[spot.group]!, recoveryMs: this.redis.recoveryMs });
    return this.redis.runner.run({ ...call, key }, readDowngrade);
  }

  inspect(key: string, timeoutMs?: number): Promise<LockState> {
    return this.redis.runner.run({ ...inspectCall(this.redis.keys.spotOf(key)), key, timeoutMs }, (reply) => lockState(key, reply));
  }

  /**
   * Lists the locks without blocking a server or filling the memory of this process: it runs SCAN page by page on every master, and
   * inspects each lock found. A lock that is taken or freed meanwhile may be missed or listed twice, as with SCAN; a lock that is taken the
   * whole time is listed, unless another program has put something else at one of its Redis keys, or its slot of a
   * Cluster is being moved.
   */
  async *list({ startsWith = '' }: ListOptions = {}): AsyncGenerator<LockState, void, undefined> {
    const { connections, runner, keys, report } = this.redis;
    const pattern = keys.lockPattern(startsWith);
    const masters = connections.masters();
    if (masters.length === 0) throw runner.failureOf(new Error(NOT_CONNECTED), { what: 'list' });
    for (const node of masters) {
      let cursor = '0';
      do {
        const [next, page] = await runner.command<[string, string[]]>(['scan', cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_SCAN], node);
        cursor = next;
        for (const look of await Promise.allSettled(keys.keysAmong(page, startsWith).map((key) => this.inspect(key)))) {
          if (look.status === 'fulfilled') {
            if (look.value.mode !== null || look.value.waiters.length > 0) yield look.value;
          } else {
            const { reason } = look;
            const which = isOfOneLock(reason) ? 'that is damaged' : isTryAgain(reason) ? 'whose slot is being moved' : undefined;
            if (!which) throw reason;
            report({ kind: `lock ${which}`, level: 'error', message: `A list of locks leaves out one ${which}. ${reason.message}` });
          }
        }
      } while (cursor !== '0');
    }
  }

  tryOut(): Promise<void> {
    return takeTrialLock(this.redis);
  }

  async close(): Promise<void> {
    this.recovery.close();
    this.redis.channel.close();
    this.redis.runner.close();
    this.redis.connections.close();
  }

  /** What becomes of the messages of the server. */
  private messages(): WakeListener {
    const { recovery, requests, redis: { node, keys: { prefix }, report } } = this;
    return {
      granted: (grant) => requests.granted(grant),
      wake: (wake) => requests.wake(wake),
      forgot: (group, memory) => recovery.heard(group, memory),
      flushed: this.redis.recoveryMs === 0 ? undefined : () => recovery.rolledBack(),
      listening: () => {
        recovery.suspect();
        requests.askAgain();
      },
      refused: (reason) => {
        const message = `Locks: ${node} no longer tells this process of its turn, which comes up to 0.7 s late. ` +
          `Allow its user +subscribe &{${prefix}}:c:* (the server said: ${reason}).`;
        report({ kind: `messages of ${node}`, level: 'warning', message });
      },
    };
  }

  /** Forgets what the server said when a connection ends or begins, because another server may answer now, and asks it anew. */
  private followConnections(): void {
    const { recovery, redis: { connections, outage, trust, memories, keys, channel, readClock } } = this;
    const { commands } = connections;
    commands.events.on('change', (isConcerned) => {
      trust.clock.reset();
      memories.reset();
      // In a Cluster a single node has changed, and the others serve on.
      if (commands.isOpen) recovery.suspect((group) => isConcerned(keys.fence(group)));
    });
    commands.events.on('end', () => outage.failed(messageOf(connections.lastError ?? 'the connection was closed')));
    commands.events.on('open', () => {
      // What is held comes before everything else.
      recovery.suspect(() => true, 'all');
      // The server's time is read at once, because requests on a new connection need it to say until when they may act.
      void readClock();
      channel.follow();
    });
  }

  /** The requests that wait ask again, which tells the server who holds their locks; and processes with another wire format must not boot now. */
  private serverForgot(group: number): void {
    this.requests.askAgain(group);
    void this.redis.format.keep(() => this.recovery.isOpen, this.redis.report);
  }
}

/** The state of a lock from the reply of inspect.lua. Waiters are in the order of service: phases alternate, readers enter together. */
export function lockState(key: string, reply: ScriptReply): LockState {
  const { phase, holders: found, waiters: waiting } = readInspect(reply);
  // In place of an owner, a holder of a permit says how many there are.
  const permits = phase === 'p' && found.length > 0 ? Number(found[0]!.owner) : undefined;
  const holders = found.map(({ leftMs, graceMs, owner, ...holder }): HolderState => ({
    ...holder, owner: phase === 'p' ? undefined : owner, ...untilFree(leftMs, graceMs), ...(isTicketId(holder.id) && { handedOff: true as const }),
  }));
  const writer = phase === 'w' ? undefined : waiting.find(({ mode }) => mode === 'write');
  const waiters = writer === undefined ? waiting : [writer, ...waiting.filter((waiter) => waiter !== writer)];
  const mode = holders.length === 0 ? null : phase === 'r' ? 'read' : 'write';
  return { key, mode, permits, holders, waiters };
}
