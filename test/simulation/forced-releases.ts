/**
 * Judges forced releases on a Redlock. Each node takes away what it was told to, and nothing else. When a quorum has confirmed one,
 * whoever held the lock when it was called has no quorum any more, never gets it back, and is told in time. The exception of S1 is
 * exactly this: a holder of whose votes one was taken away may go on beside others, until a renewal has found a quorum for it. A
 * request that the network delivers twice may be granted anew, which is no fault of the forced release.
 */
import type { HistoryEvent } from '../model/history.js';
import { readHolders, type Holder } from './record-check.js';
import { lockKeyOf } from './setting.js';
import type { SimProcess } from './sim-process.js';
import type { ScriptRun, SimServer } from './sim-server.js';

/** Where a request for a vote names its ballot. */
const BALLOT = 5;

export interface Surroundings {
  readonly servers: readonly SimServer[];
  readonly history: HistoryEvent[];
  now(): number;
  /** Calls back when a holder must have been told, unless nothing is promised about that: messages are lost, or leases are fixed. */
  readonly whenTold: ((then: () => void) => void) | undefined;
  /** The processes that trust a lease of this lock with such a fence, and have run since then. */
  whoTrusts(key: string, since: number, isIt: (fence: number) => boolean): readonly SimProcess[];
}

/** A ballot of which a confirmed forced release left no quorum. */
interface Gone {
  readonly key: string;
  readonly ballot: string;
  /** When the operator called for it, and when it was confirmed. */
  readonly calledAt: number;
  readonly since: number;
}

export class ForcedReleases {
  readonly violations: string[] = [];
  /** When a node let a vote be taken away last, by holder id. */
  private readonly takenAt = new Map<string, number>();
  private readonly gone = new Map<string, Gone>();
  /** The votes that each node was asked for. */
  private readonly asked = new Set<string>();
  /** Ballots of which the network delivered a request to a node twice: the second one may put them back there. */
  private readonly doubled = new Set<string>();
  private readonly quorum: number;

  constructor(private readonly around: Surroundings) {
    this.quorum = Math.floor(around.servers.length / 2) + 1;
  }

  /** A node ran the script of a forced release. */
  ran(server: SimServer, key: string, { before, args: [fence = ''] }: ScriptRun, taken: boolean): void {
    const [there, left] = [living(server, before), living(server, server.text(lockKeyOf(key)))];
    const isMeant = (holder: Holder): boolean => fence === '' || has(holder, Number(fence));
    const went = there.filter(({ id }) => left.every((holder) => holder.id !== id));
    const wrong = [...went.filter((holder) => !isMeant(holder)), ...left.filter(isMeant)];
    if (wrong.length > 0 || taken !== went.length > 0) {
      this.tell(`${server.name} let a forced release of '${key}' (${fence || 'all'}) turn ${before} into ${server.text(lockKeyOf(key))}`);
    }
    for (const { id } of went.filter((holder) => !holder.id.startsWith('~'))) this.took(key, holderOf(id));
  }

  /** A node ran the script that votes. */
  voted(server: SimServer, { args }: ScriptRun): void {
    for (const terms of args) {
      const ballot = terms.split(' ')[BALLOT] ?? '';
      const vote = `${server.name} ${ballot}`;
      if (this.asked.has(vote)) this.doubled.add(ballot);
      this.asked.add(vote);
    }
  }

  /** An operator calls for one. Returns what is to be called when it was confirmed. */
  called(key: string, fence: number | undefined): () => void {
    const calledAt = this.around.now();
    const holders = this.withQuorum(key).filter((holder) => fence === undefined || has(holder, fence));
    return () => {
      for (const { id: ballot } of holders) {
        if (this.doubled.has(ballot)) continue;
        const nodes = this.nodesWith(key, ballot);
        if (nodes >= this.quorum) this.tell(`a forced release of '${key}' was confirmed, and ${ballot} is on ${nodes} nodes still`);
        else this.isGone({ key, ballot, calledAt, since: this.around.now() });
      }
    };
  }

  /** A script ran that may have changed this lock. */
  look(key: string): void {
    for (const { ballot, since, key: released } of this.gone.values()) {
      if (released !== key || this.nodesWith(key, ballot) < this.quorum) continue;
      this.gone.delete(ballot);
      if (!this.doubled.has(ballot)) this.tell(`${ballot} has '${key}' back, which a forced release took away at ${since.toFixed(1)}`);
    }
  }

  /** A renewal that left at `sentAt` found a quorum. */
  renewed(id: string, sentAt: number): void {
    if ((this.takenAt.get(id) ?? Infinity) < sentAt) this.takenAt.delete(id);
    for (const { ballot, calledAt, since } of this.gone.values()) {
      // It may have noticed the loss before the operator heard that it is confirmed. Then it has another ballot.
      const askedAnew = this.around.history.some((event) => event.kind === 'asked' && event.id === id && event.at > calledAt);
      if (holderOf(ballot) === id && since < sentAt && !askedAnew) this.tell(`${ballot} was renewed, which a forced release took away at ${since.toFixed(1)}`);
    }
  }

  /** Whether a hold with this fence may go on beside others. */
  excuses(key: string, fence: number): boolean {
    return this.grantsOf(key, (id) => this.takenAt.has(id))(fence);
  }

  /** From here on the history takes it for lost. */
  private took(key: string, id: string): void {
    const { history, now } = this.around;
    this.takenAt.set(id, now());
    if (history.some((event) => event.id === id)) history.push({ at: now(), key, id, kind: 'lost' });
  }

  private isGone(gone: Gone): void {
    const { key, ballot, since } = gone;
    this.gone.set(ballot, gone);
    this.around.whenTold?.(() => {
      if (!this.gone.has(ballot)) return;
      const isIt = this.grantsOf(key, (id) => id === holderOf(ballot));
      for (const { name } of this.around.whoTrusts(key, since, isIt)) this.tell(`${name} trusts ${ballot} still, of which a forced release took '${key}' at ${since.toFixed(1)}`);
    });
  }

  /** Tells of a fence whether one of these holders was granted it. */
  private grantsOf(key: string, isOne: (id: string) => boolean): (fence: number) => boolean {
    const grants = this.around.history.flatMap((event) => (event.kind === 'granted' && event.key === key && isOne(event.id) ? [event] : []));
    return (fence) => grants.some((grant) => has(grant, fence));
  }

  private withQuorum(key: string): readonly Holder[] {
    const all = new Map(this.around.servers.flatMap((server) => living(server, server.text(lockKeyOf(key)))).map((holder) => [holder.id, holder]));
    return [...all.values()].filter(({ id }) => this.nodesWith(key, id) >= this.quorum);
  }

  private nodesWith(key: string, ballot: string): number {
    return this.around.servers.filter((server) => living(server, server.text(lockKeyOf(key))).some(({ id }) => id === ballot)).length;
  }

  private tell(what: string): void {
    this.violations.push(`at ${this.around.now().toFixed(1)} ${what}`);
  }
}

/** Whose lease has not ended there. A turn that is kept for a process has no fences. */
const living = (server: SimServer, text = ''): readonly Holder[] => readHolders(text).filter(({ end, fences }) => end >= server.nowMs() && fences > 0);

function has({ fence: first, fences }: { readonly fence: number; readonly fences: number }, fence: number): boolean {
  return first <= fence && fence < first + fences;
}

const holderOf = (ballot: string): string => ballot.slice(0, ballot.lastIndexOf('/'));
