/**
 * The holders of a lock are named here, for callers that look at it and for LockTimeoutErrors. Such an error also tells which locks the
 * caller itself held meanwhile, and, by its stack, where the call came from.
 *
 * The holders of this process are named by the calls that hold now. The store knows the label of the call to which it granted the lease; a
 * lease that was handed on since, inside the process, is that of another call.
 */
import { type BusyHolder, LockTimeoutError, quoted, type WaitFacts } from '../port/errors.js';
import { type HolderState, type LockState, sinceOf, whereaboutsOf } from '../port/lock-state.js';
import type { Call } from '../queue/call.js';
import { Hold } from './hold.js';
import type { LockCore } from './lock-core.js';

/** How long the caller, whose waitMs is over, waits for the store to name the holders, in ms. */
const TELLS_WITHIN_MS = 100;
/** For how many locks at a time the store is asked. When many calls time out together, the questions would keep it busy. */
const MAX_LOOKS_AT_ONCE = 32;

export class Holders {
  /** The open questions by key. Callers that time out on the same lock share one. */
  private readonly looks = new Map<string, Promise<readonly HolderState[]>>();

  constructor(private readonly core: LockCore) {}

  /**
   * Rejects with the reason why the call got no lock; a LockTimeoutError is explained before. It must be called in the async context of the
   * call, whose promise the caller awaits: so V8 adds the caller to the stack, and no stack has to be captured for calls that succeed.
   */
  async reject(call: Call, reason: unknown): Promise<never> {
    if (!(reason instanceof LockTimeoutError)) throw reason;
    const { key, waitMs, message } = reason;
    // When the call is inside a hold of this lock, a sibling call was in its way, so naming the holder would explain nothing.
    const holders = this.core.context.find(key) ? [] : await this.look(key);
    const facts = { key, waitMs, held: this.heldBy(call), holders: holders.map((holder) => this.described(key, holder)) };
    const idle = holders.some(({ id }) => this.here(key, id).some((hold) => !hold.hasRun));
    throw new LockTimeoutError(`${message}${waitedStory(facts, idle)}`, facts);
  }

  /** The keys of the locks that the call holds: of the holds around it, the outermost first, and what it has of several locks. */
  private heldBy({ taken }: Call): string[] {
    const around = this.core.context.around().reverse();
    return [...new Set([...around.flatMap((hold) => (hold.isOver ? [] : hold.keys)), ...taken.map(({ key }) => key)])];
  }

  private described(key: string, holder: HolderState): BusyHolder {
    const { id, fence, owner, handedOff } = holder;
    const { clock, queues } = this.core;
    const [hold] = this.here(key, id);
    const sinceMs = hold ? clock.wallNow() - hold.heldMs : sinceOf(fence);
    const since = sinceMs === undefined ? undefined : new Date(sinceMs);
    return { ...whereaboutsOf(id), label: this.labelOf(key, holder), owner, fence, since, handedOff, isHere: queues.leaseOf(key, id) !== undefined };
  }

  private look(key: string): Promise<readonly HolderState[]> {
    const present = this.looks.get(key);
    if (present) return present;
    if (this.looks.size >= MAX_LOOKS_AT_ONCE) return Promise.resolve([]);
    const { store, schedule } = this.core;
    const look = schedule.within<readonly HolderState[]>(TELLS_WITHIN_MS, [], (answer) => {
      store.inspect(key).then(({ holders }) => answer(holders), () => answer([]));
    });
    this.looks.set(key, look);
    return look.finally(() => this.looks.delete(key));
  }

  /** The holds of this process on the lease with this id, without nested ones. */
  private here(key: string, id: string): Hold[] {
    const listeners = this.core.queues.leaseOf(key, id)?.listeners ?? [];
    return listeners.filter((one): one is Hold => one instanceof Hold && !one.isNested);
  }

  /** The label of the call that holds now; that of the store, when the holder is no call of this process. */
  private labelOf(key: string, { id, label }: HolderState): string | undefined {
    const holds = this.here(key, id);
    return holds.length === 0 ? label : holds.find(({ options }) => options.label !== undefined)?.options.label;
  }

  /** What the store knows of a lock, with the holders of this process under their present labels. */
  named(state: LockState): LockState {
    return { ...state, holders: state.holders.map((holder) => ({ ...holder, label: this.labelOf(state.key, holder) })) };
  }
}

/** How many holders of a shared lock a message names at most. */
const MAX_HOLDERS_NAMED = 3;

/** The sentences that follow on "Lock … was still busy". `idle`: a holder is a lease of this process in which no code has run. */
function waitedStory({ holders, held }: Required<WaitFacts>, idle: boolean): string {
  const sentences: string[] = [];
  if (holders.length > 0) {
    const more = holders.length > MAX_HOLDERS_NAMED ? `; and ${holders.length - MAX_HOLDERS_NAMED} more` : '';
    sentences.push(`Held by ${holders.slice(0, MAX_HOLDERS_NAMED).map(holderText).join('; ')}${more}.`);
  }
  if (held.length > 0) {
    sentences.push(`The call that waited holds ${quoted(held)}: if the holder waits for that, name all in one call, or take them in one order everywhere.`);
  }
  if (idle) {
    sentences.push(
      'A holder in this process got its lease from acquire(), and no code runs inside it: code that has it and asks for the lock again ' +
        'waits for itself. Run the inner call inside the hold, with lease.run(fn).',
    );
  }
  return sentences.map((sentence) => ` ${sentence}`).join('');
}

function holderText({ label, owner, process, host, pid, since, isHere, handedOff }: BusyHolder): string {
  const where = isHere ? 'this process' : host === undefined ? `process ${process}` : `${host}, pid ${pid}`;
  const who = [label, owner === undefined ? undefined : `owner '${owner}'`].filter((part) => part !== undefined).join(', ');
  const from = since === undefined ? '' : ` since ${since.toISOString()}`;
  const ticket = handedOff ? ', handed off with a ticket that nobody has adopted yet' : '';
  return `${who === '' ? where : `${who} in ${where}`}${from}${ticket}`;
}
