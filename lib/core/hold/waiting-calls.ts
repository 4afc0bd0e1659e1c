/**
 * Finds deadlocks among the calls of this process: calls that wait for a lock while they hold others. Two that take the same locks
 * in opposite order wait for each other until one gives up. The circle is found when its last call begins to wait, and the error
 * of a call that gives up names it.
 */
import { LockTimeoutError, type WaitFacts } from '../port/errors.js';
import type { Clock } from '../port/clock.js';
import type { Around, Call, WaitEnded } from '../queue/call.js';

/** The other calls of a circle often give up shortly after the first. Up to this long after it, in ms, their errors name the circle too. */
const JUST_NOW_MS = 1_000;
/** The longest circle that is looked for, in calls, so that the search costs little however many calls wait. */
const LONGEST_CIRCLE = 16;

/** So many calls that hold a lock are looked at, for the same reason: a thousand calls inside one hold may wait for each other's turn. */
const MAX_LOOKED_AT = 100;

/** Calls that wait for each other in a circle. It has ended when the first of them waits no more. */
interface Circle {
  readonly keys: readonly string[];
  endedAt: number;
}

interface WaitingCall {
  readonly key: string;
  readonly around: Around | undefined;
  readonly taken: readonly { readonly key: string }[];
  /** The keys of the locks that the call holds, the outermost first. */
  readonly held: readonly string[];
  circle: Circle | undefined;
}

export class WaitingCalls {
  private readonly byHeldKey = new Map<string, Set<WaitingCall>>();
  /** What is known of each wait that was in vain, by the error with which it ended. */
  private readonly facts = new WeakMap<object, WaitFacts>();

  constructor(private readonly clock: Clock) {}

  /**
   * Notes a call that begins to wait. Returns undefined for a call that holds nothing, because it keeps no other call waiting, and
   * for one that waits for a permit, because no single holder keeps it waiting.
   */
  begin({ key, around, taken, options }: Call): WaitEnded | undefined {
    const held = [...new Set([...keysAround(around), ...taken.map((one) => one.key)])];
    if (held.length === 0 || options.permits !== undefined) return undefined;
    const call: WaitingCall = { key, around, taken, held, circle: undefined };
    for (const one of held) this.holdersOf(one).add(call);
    this.close([call], new Set());
    return (reason) => this.end(call, reason);
  }

  /** Which locks the call that ended with this error held, and the circle of which it was a part. */
  factsOf(error: LockTimeoutError): WaitFacts {
    return this.facts.get(error) ?? {};
  }

  private holdersOf(key: string): Set<WaitingCall> {
    let calls = this.byHeldKey.get(key);
    if (!calls) this.byHeldKey.set(key, (calls = new Set()));
    return calls;
  }

  private end(call: WaitingCall, reason: unknown): void {
    for (const key of call.held) {
      const calls = this.byHeldKey.get(key);
      calls?.delete(call);
      if (calls?.size === 0) this.byHeldKey.delete(key);
    }
    const { held, circle } = call;
    const now = this.clock.now();
    if (reason instanceof LockTimeoutError) {
      this.facts.set(reason, { held, cycle: circle && now - circle.endedAt <= JUST_NOW_MS ? circle.keys : undefined });
    }
    if (circle) circle.endedAt = Math.min(circle.endedAt, now);
  }

  /** Extends `path`, in which each call waits for the next, until one waits for the first. No call is looked at twice. */
  private close(path: readonly WaitingCall[], seen: Set<WaitingCall>): boolean {
    const [first, last] = [path[0]!, path.at(-1)!];
    let lookedAt = 0;
    for (const next of this.byHeldKey.get(last.key) ?? []) {
      if ((lookedAt += 1) > MAX_LOOKED_AT) return false;
      if (!blocks(next, last)) continue;
      if (next === first) {
        const circle: Circle = { keys: path.map(({ key }) => key), endedAt: Infinity };
        for (const call of path) call.circle = circle;
        return true;
      }
      if (seen.has(next) || path.length >= LONGEST_CIRCLE) continue;
      seen.add(next);
      if (this.close([...path, next], seen)) return true;
    }
    return false;
  }
}

/** The keys of the locks that surround a call, the outermost first. */
export function keysAround(around: Around | undefined): string[] {
  const keys: string[] = [];
  for (let frame = around; frame; frame = frame.outer) if (!frame.hold.isOver) keys.unshift(...frame.hold.keys);
  return [...new Set(keys)];
}

/**
 * Whether `holder` has the lock for which `waiter` waits. A hold that surrounds both does not count, because it keeps neither out.
 * Modes do not matter: when a reader waits although a reader holds the lock, it waits behind a writer, and that waits for the holder.
 */
function blocks(holder: WaitingCall, waiter: WaitingCall): boolean {
  if (holder.taken.some(({ key }) => key === waiter.key)) return true;
  for (let frame = holder.around; frame; frame = frame.outer) {
    if (frame.hold.keys.includes(waiter.key) && !frame.hold.isOver && !surrounds(frame, waiter)) return true;
  }
  return false;
}

function surrounds({ hold }: Around, { around }: WaitingCall): boolean {
  for (let frame = around; frame; frame = frame.outer) if (frame.hold === hold) return true;
  return false;
}
