/**
 * What a process does when its server may have forgotten what it granted: after a new connection or subscription, and when a message says
 * that a slot group has another memory than before. The server itself notices it by the first script that comes, and closes the group: it
 * grants nothing new there (memory.lua). Those who wait ask again, and say who they were told holds the lock (stand-in.lua).
 *
 *     in doubt ──▶ recalled ──▶ what an earlier memory knew is brought back ──▶ through
 *        ▲           └──(no answer)──▶ pause ─┐        └──(not all of it)──▶ pause ─┐
 *        └────────────────────────────────────┴─────────────────────────────────────┘
 *
 * A recall is the first command that is sent (recall.lua). It is one for all slot groups of a server, and in a Cluster one for each group in
 * which this process holds something. It begins the recovery of a server that forgot, tells it the highest fences that this process has
 * seen, and claims the groups in which this process holds something: they stay closed for some seconds. Its answer names the memories. So
 * the leases themselves, which take longer, can follow in batches (renewals.ts). In a Cluster a group in which this process holds nothing, and
 * which it has not claimed, is not recalled at all: its memory is told with the next answer to a request.
 */
import { Backoff, pause } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { StoreEvent } from '../../core/port/lock-events.js';
import type { Doubt, DoubtListener, LeaseRef, Reply, StoreRecovery } from '../../core/port/lock-store.js';
import { readRecall, recallCall, type RecallReply } from '../wire/lua.generated.js';
import { lasted } from '../wire/store-failure.js';
import { eachGroup, UNKNOWN_MEMORY, UNTIL_TOLD_MS } from '../wire/redis-keys.js';
import { marginOf } from '../wire/server-clock.js';
import { beginningOf, SERVER_LENGTH, type RemoteRedis } from './remote-redis.js';

/** The first and the longest pause before groups that are not through are recalled again, in ms. */
const PAUSES_MS = [60, 1_000] as const;
/** A claim is repeated as long as leases go on being brought back, in ms. It keeps its group closed for more than twice as long. */
const CLAIM_AGAIN_MS = 2_000;
/** A recovery that is not claimed by this process is looked at again after this long, in ms. */
const LOOK_MS = 500;

/** Which leases have to be renewed: all, as after a new connection, or those that an earlier memory knew; undefined for none. */
type InDoubt = 'all' | 'some' | undefined;

/** Slot groups that are recalled by one command, and how far their recovery has come. */
interface RecallUnit {
  readonly groups: readonly number[];
  doubt: InDoubt;
  isUnderway: boolean;
  /** The memories that messages have told of since the last recall. */
  readonly heard: Map<number, string>;
  /** Ends the present pause. */
  goOn: () => void;
}

/** The slot groups in which this process holds something, and those in which the present memory does not know all of that. */
type HeldGroups = Readonly<Record<'held' | 'outdated', ReadonlySet<number>>>;

export class Recovery implements StoreRecovery {
  recoveries = 0;
  /** How many leases this process has brought back since it started. Only Renewals writes it. */
  broughtBack = 0;
  /** Whether anything is asked: from the end of the boot until the store is closed. Only this object writes it. */
  isOpen = false;
  /** Called when the server forgot, and when its recovery is over. */
  listener: (event: StoreEvent) => void = () => {};
  /** Called with the answer to each recall that begins a recovery, claims groups, or is made at boot. */
  onRecall: (answer: Reply<RecallReply>) => void = () => {};
  /** The listeners of {@link onDoubt}, which renew leases in doubt and so bring back those that were forgotten. */
  private readonly doubtListeners: DoubtListener[] = [];
  /** The leases of this process. */
  private held: () => Iterable<LeaseRef> = () => [];
  private readonly units: readonly RecallUnit[];
  /** The local instant at which the recovery ends, as far as the server has said. */
  private openAt = -Infinity;
  /** What was found in this turn of the event loop, and the review that begins in the next one. */
  private found: HeldGroups | undefined;
  private reviewing: Promise<void> | undefined;
  /** The review of all leases that was begun last, and the one that begins when that is over; undefined when none waits. */
  private everything: Promise<void> = Promise.resolve();
  private nextEverything: Promise<void> | undefined;
  /** Ends the wait for the end of the recovery, once the listener was told that the server forgot, and until it was told that this is over. */
  private stopTelling: (() => void) | undefined;

  constructor(
    private readonly redis: RemoteRedis,
    /** Called when a group has another memory than before. */
    private readonly forgot: (group: number) => void,
  ) {
    // In a Cluster each group may have another master than the others.
    const parts = redis.isCluster ? eachGroup((group) => [group]) : [eachGroup((group) => group)];
    this.units = parts.map((part) => ({ groups: part, doubt: undefined, isUnderway: false, heard: new Map(), goOn: () => {} }));
  }

  get recoversForMs(): number {
    return Math.max(0, this.openAt - this.redis.clock.now());
  }

  /** Recalls all memories for the first time, at boot. Rejects with LockStoreError, and then nothing else is asked. */
  async learnAtBoot(): Promise<void> {
    const { memories, memories: { generation } } = this.redis;
    const [answer] = await Promise.all(this.units.map(({ groups }) => this.recall(groups)));
    this.onRecall(answer!);
    this.isOpen = true;
    if (memories.generation !== generation) this.suspect();
  }

  /** Waits for the end of a recovery, so that an application that starts on an empty server is not refused its first locks. */
  async recovered(atMostMs: number): Promise<void> {
    if (this.recoversForMs > 0) await pause(this.redis.clock, Math.min(this.recoversForMs, atMostMs));
  }

  close(): void {
    this.isOpen = false;
    this.stopTelling?.();
    for (const unit of this.units) unit.goOn();
  }

  onDoubt(listener: DoubtListener, held = this.held): void {
    this.doubtListeners.push(listener);
    this.held = held;
  }

  /** Assumes that what was granted in these slot groups may be forgotten. */
  suspect(isConcerned: (group: number) => boolean = () => true, doubt: InDoubt = 'some'): void {
    if (!this.isOpen) return;
    for (const unit of this.units) {
      if (!unit.groups.some(isConcerned)) continue;
      unit.doubt = graver(unit.doubt, doubt);
      unit.goOn();
      if (!unit.isUnderway) void this.recover(unit);
    }
  }

  /** An older snapshot may have leases with earlier ends, also where no fence shows it: so everything that is held is renewed. */
  rolledBack(): void {
    this.suspect();
    void this.tellDoubt('rolled back');
  }

  /** Handles the message that a group has this memory. */
  heard(group: number, memory: string): void {
    const { memories, isCluster } = this.redis;
    const unit = this.units[isCluster ? group : 0];
    // Anybody who may publish can say anything, so a group may be none.
    if (unit?.groups.includes(group) !== true || memories.known[group] === memory || memory.length !== UNKNOWN_MEMORY.length) return;
    if (this.isIdle([group])) return void this.learn(group, memory, memories.generation);
    unit.heard.set(group, memory);
    if (unit.isUnderway) unit.goOn();
    else this.suspect((each) => each === group);
  }

  /**
   * Compares the memory that has granted or brought back a lease with the one that is known. If they differ, either the answer is
   * older than what is known, so that the lease may be forgotten, or the message of the new memory was missed.
   */
  compare(group: number, memory: string | undefined, generation: number): void {
    const { memories, clock } = this.redis;
    const isNews = memory !== undefined && memories.known[group] === UNKNOWN_MEMORY && this.learn(group, memory, generation);
    // In the next turn of the event loop the lease is known that this answer has granted.
    if (isNews || memories.isOutdated(group, memory)) clock.nextTurn(() => this.suspect((each) => each === group));
  }

  private learn(group: number, memory: string, generation: number): boolean {
    const before = this.redis.memories.learn(group, memory, generation);
    if (before === undefined) return false;
    const { clock, keys, trust, recoveryMs } = this.redis;
    const now = clock.now();
    // A process that holds nothing in the group did not ask how long it stays closed: recoveryMs at least, from the time in the memory's name.
    const leftMs = Math.min(recoveryMs, beginningOf(memory) + recoveryMs - trust.clock.lowerBound(keys.shardOf(group), now, now));
    if (leftMs > this.recoversForMs) this.recovering(now, leftMs);
    void this.tell(before, memory);
    this.forgot(group);
    // A group in which nothing is held is reviewed too: what this process has released there shortly before may be there again.
    void this.review('some');
    return true;
  }

  /** Has the leases of these groups renewed or brought back, until nothing is in doubt. */
  private async recover(unit: RecallUnit): Promise<void> {
    const { clock, memories } = this.redis;
    const backoff = new Backoff(...PAUSES_MS);
    // Later, when it has claimed them, it also asks if it has released all meanwhile: that withdraws the claim.
    if (this.isIdle(unit.groups)) unit.doubt = undefined;
    unit.isUnderway = true;
    while (this.isOpen && unit.doubt !== undefined) {
      const { doubt, heard, groups } = unit;
      unit.doubt = undefined;
      heard.clear();
      const left = await this.bringBack(groups, doubt);
      // What came meanwhile is looked at without a pause.
      if ([...heard].some(([group, memory]) => memories.known[group] !== memory)) unit.doubt ??= 'some';
      const isNews = unit.doubt !== undefined;
      unit.doubt = graver(unit.doubt, left);
      if (!isNews && left !== undefined) await pause(clock, backoff.nextMs(), (goOn) => (unit.goOn = goOn));
    }
    unit.isUnderway = false;
  }

  /** Resolves with what is in doubt still: as much as before when the server has not answered, and nothing when all is back that was held. */
  private async bringBack(groups: readonly number[], doubt: InDoubt): Promise<InDoubt> {
    const { clock, memories, memories: { generation } } = this.redis;
    const { held } = this.heldGroups();
    if (!(await this.claim(groups))) return this.isIdle(groups) ? undefined : doubt;
    // The groups stay closed only as long as they are claimed, so the claim is repeated until the leases are back.
    const reviewed = this.review(doubt);
    while (this.isOpen && (await pause(clock, CLAIM_AGAIN_MS, (end) => void reviewed.then(end)))) await this.claim(groups);
    const { outdated } = this.heldGroups();
    // The server has been asked for all leases: from now on only those count that its present memory does not know. What that is was not learned
    // if a connection to any server ended or began meanwhile.
    if (memories.generation !== generation || groups.some((group) => outdated.has(group))) return 'some';
    // All are back, so the claim is withdrawn: this recall says that nothing is held.
    if (this.recoversForMs > 0 && held.size > 0 && this.isOpen) await this.recall(groups).catch(() => undefined);
    return undefined;
  }

  /**
   * Claims those of these groups in which something is held. Whether the server has answered: also when it refuses, because a record is damaged, and
   * the leases of other records can come back all the same.
   */
  private async claim(groups: readonly number[]): Promise<boolean> {
    const answer = await this.recall(groups, this.heldGroups().held).catch((error: LockStoreError) => error);
    const isAnswered = !(answer instanceof LockStoreError && answer.retryable);
    if (isAnswered) this.onRecall(answer);
    return isAnswered;
  }

  /**
   * Several groups that are claimed in one turn of the event loop are reviewed together. One review of everything at a time is made, or in a Cluster
   * each group would have all leases renewed. One that runs may have passed what another group holds, so the next serves all that claim meanwhile.
   */
  private async review(doubt: InDoubt): Promise<void> {
    this.reviewing ??= new Promise<void>((resolve) => this.redis.clock.nextTurn(resolve)).then(() => {
      this.reviewing = undefined;
      return this.tellDoubt('some');
    });
    await this.reviewing;
    if (doubt !== 'all') return;
    await (this.nextEverything ??= this.everything.then(() => {
      this.nextEverything = undefined;
      return (this.everything = this.tellDoubt('all'));
    }));
  }

  private async tellDoubt(doubt: Doubt): Promise<void> {
    await Promise.all(this.doubtListeners.map(async (listener) => listener(doubt)));
  }

  /** True in a Cluster for groups in which this process holds nothing: it need not ask for them. */
  private isIdle(groups: readonly number[]): boolean {
    return this.redis.isCluster && !groups.some((group) => this.heldGroups().held.has(group));
  }

  /** It is looked up once in a turn of the event loop, because there may be very many leases. */
  private heldGroups(): HeldGroups {
    const { keys, memories, clock } = this.redis;
    if (this.found !== undefined) return this.found;
    const found = { held: new Set<number>(), outdated: new Set<number>() };
    for (const { key, memory } of this.held()) {
      const group = keys.groupOf(key);
      found.held.add(group);
      if (memories.isOutdated(group, memory)) found.outdated.add(group);
    }
    this.found = found;
    clock.nextTurn(() => (this.found = undefined));
    return found;
  }

  /** Asks for the memories and the last fences of these groups, after telling the fences that this process has seen, and claiming those in which it holds something. */
  recall(groups: readonly number[], held?: ReadonlySet<number>): Promise<RecallReply> {
    const { runner, keys, trust, memories, process, recoveryMs } = this.redis;
    const { generation } = memories;
    const on = { keys: groups.map((group) => ({ fenceKey: keys.fence(group) })) };
    const call = recallCall(on, { process, recoveryMs, groups: groups.map((group) => ({ floor: trust.floors.highest[group]!, holds: held?.has(group) === true })) });
    return runner.run(call, (reply, sentAt, receivedAt) => {
      const told = readRecall(reply);
      const { now, recoversForMs } = told;
      if (recoversForMs > 0) this.recovering(receivedAt, recoversForMs + marginOf(recoversForMs));
      trust.clock.observe(keys.shardOf(groups[0]!), { sentAt, receivedAt, serverNow: now });
      told.groups.forEach(({ memory }, n) => this.learn(groups[n]!, memory, generation));
      return told;
    });
  }

  private recovering(now: number, forMs: number): void {
    // A recovery that begins while this process boots is that of a server that was empty.
    if (now > this.openAt && this.isOpen) this.recoveries += 1;
    this.openAt = Math.max(this.openAt, now + forMs);
  }

  /**
   * Tells that the server forgot what it granted, and that its recovery is over: one log line and event each, however many slot groups there
   * are. A Redlock has words of its own for a node that forgot.
   */
  private async tell(before: string, memory: string): Promise<void> {
    const { node: store, clock, report, recoveryMs } = this.redis;
    if (this.stopTelling || recoveryMs === 0 || recoveryMs === UNTIL_TOLD_MS) return;
    const [reason, forMs, since, alreadyBack] = [whatHappened(before, memory), this.recoversForMs, clock.now(), this.broughtBack];
    const closed = forMs > 0 ? `It grants nothing new for ${lasted(forMs)}; leases that are held are brought back meanwhile.` : 'It grants again by now.';
    report({ kind: `recovery of ${store}`, level: 'warning', message: `Locks: ${store} ${REASONS[reason]}, and may have forgotten who holds what. ${closed}` });
    this.listener({ type: 'storeForgot', store, reason, forMs });
    do await pause(clock, Math.max(LOOK_MS, this.recoversForMs), (goOn) => (this.stopTelling = goOn)); while (this.isOpen && this.recoversForMs > 0);
    this.stopTelling = undefined;
    if (!this.isOpen) return;
    const broughtBack = this.broughtBack - alreadyBack;
    report({ kind: `end of the recovery of ${store}`, level: 'info', message: `Locks: ${store} grants again. Leases brought back by this process: ${broughtBack}.` });
    this.listener({ type: 'storeRecovered', store, reason, afterMs: clock.now() - since, broughtBack });
  }
}

function graver(one: InDoubt, other: InDoubt): InDoubt {
  return one === 'all' ? one : (other ?? one);
}

type ForgotReason = StoreEvent['reason'];

const REASONS: Readonly<Record<ForgotReason, string>> = {
  flushed: 'was flushed, or loaded other data',
  restarted: 'has a node that was restarted',
  replaced: 'has another master for some slots',
  'restarted-or-replaced': 'was restarted, or another server took its place',
};

/** In a Cluster the second half of a server's name is that of the node, which a restart does not change. */
function whatHappened(before: string, memory: string): ForgotReason {
  if (before.slice(0, SERVER_LENGTH) === memory.slice(0, SERVER_LENGTH)) return 'flushed';
  if (memory[SERVER_LENGTH - 1] !== '@') return 'restarted-or-replaced';
  return before.slice(8, SERVER_LENGTH) === memory.slice(8, SERVER_LENGTH) ? 'restarted' : 'replaced';
}
