/**
 * The calls that wait for a lock while they hold others. Two of them that take the same locks in opposite order wait for each
 * other until one gives up: such a circle is found when its last call begins to wait, so that the error can say so.
 */
import { LockTimeoutError, type WaitFacts } from '../port/errors.js';
import type { Clock } from '../port/clock.js';
import type { WaitEnded } from '../queue/caller.js';
import type { Frame } from './hold-context.js';
import type { Entered } from './hold-part.js';
import type { Wish } from './wish.js';

/** Calls of one circle give up one shortly after the other: the next is told of it as well. */
const JUST_NOW_MS = 1_000;
/** The length of a circle is bounded, so that looking for one costs little however many calls wait. */
const LONGEST_CIRCLE = 16;

/** Calls that wait for each other. It ends with the first of them that waits no more. */
interface Circle {
  readonly keys: readonly string[];
  endedAt: number;
}

interface WaitingCall {
  readonly key: string;
  readonly around: Frame | undefined;
  readonly taken: readonly Entered[];
  /** The locks that it holds, the outermost first. */
  readonly held: readonly string[];
  circle: Circle | undefined;
}

export class WaitingCalls {
  private readonly byHeldKey = new Map<string, Set<WaitingCall>>();
  /** What is known of waits that were in vain, by the error that they ended with. */
  private readonly facts = new WeakMap<object, WaitFacts>();

  constructor(private readonly clock: Clock) {}

  /** A call begins to wait. One that holds nothing keeps nobody waiting: it needs no entry, and gets undefined. */
  begin({ key, around, taken }: Wish): WaitEnded | undefined {
    const held = [...new Set([...keysAround(around), ...taken.map((one) => one.key)])];
    if (held.length === 0) return undefined;
    const call: WaitingCall = { key, around, taken, held, circle: undefined };
    for (const one of held) this.holdersOf(one).add(call);
    this.close([call], new Set());
    return (reason) => this.end(call, reason);
  }

  /** What the call that ended with this error held, and the circle that it was part of. */
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

  /** Follows `path`, of which each call waits for the next, until one waits for the first. No call is looked at twice. */
  private close(path: readonly WaitingCall[], seen: Set<WaitingCall>): boolean {
    const [first, last] = [path[0]!, path.at(-1)!];
    for (const next of this.byHeldKey.get(last.key) ?? []) {
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

/** The locks that surround a call, the outermost first. */
export function keysAround(around: Frame | undefined): string[] {
  const keys: string[] = [];
  for (let frame = around; frame; frame = frame.outer) if (!frame.hold.isOver) keys.unshift(...frame.hold.keys);
  return [...new Set(keys)];
}

/**
 * Whether `holder` has, by itself, what `waiter` waits for. A hold that surrounds both keeps neither out. Modes do not matter: a
 * reader waits beside a reader only behind a writer, who waits for the first of them.
 */
function blocks(holder: WaitingCall, waiter: WaitingCall): boolean {
  if (holder.taken.some(({ key }) => key === waiter.key)) return true;
  for (let frame = holder.around; frame; frame = frame.outer) {
    if (frame.hold.partOf(waiter.key) && !frame.hold.isOver && !surrounds(frame, waiter)) return true;
  }
  return false;
}

function surrounds({ hold }: Frame, { around }: WaitingCall): boolean {
  for (let frame = around; frame; frame = frame.outer) if (frame.hold === hold) return true;
  return false;
}
