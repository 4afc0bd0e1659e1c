/**
 * Watches the readers that wait, in whichever process: when one of them is let in, a phase of reading has begun, and nobody may
 * write before those that waited already have read, whoever stood before them (L1).
 */
import type { LockMode } from '../../lib/core/port/lock-options.js';
import type { SimProcess } from './sim-process.js';

/** A call that waits. */
export interface JudgedCall {
  readonly process: SimProcess;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** It asks for one lock, with nothing that sets it apart from others but the length of its lease. */
  readonly isPlain: boolean;
  /** Since when it waits. */
  readonly since: number;
}

/** Who came so shortly before a phase was told may have come after it began. */
const TOLD_WITHIN_MS = 300;

export class PhaseJudge {
  readonly violations: string[] = [];
  private readonly waiting = new Set<JudgedCall>();
  /** Readers whose phase has begun without them, and when. */
  private readonly owed = new Map<JudgedCall, number>();

  constructor(private readonly now: () => number, private readonly isPromised: boolean) {}

  waits(call: JudgedCall): void {
    if (this.isPromised) this.waiting.add(call);
  }

  /** Was let in, or gave up. */
  ended(call: JudgedCall): void {
    this.waiting.delete(call);
    this.owed.delete(call);
  }

  /** Was let in. */
  served(call: JudgedCall): void {
    this.ended(call);
    if (!this.isPromised) return;
    if (call.mode === 'write') return call.keys.forEach((key) => this.written(key));
    if (!call.isPlain) return;
    for (const other of this.waiting) if (this.isOwed(other, call)) this.owed.set(other, this.owed.get(other) ?? this.now());
  }

  private written(key: string): void {
    for (const [{ process, since, keys }, begun] of this.owed) {
      if (!keys.includes(key)) continue;
      const reader = `a reader of ${process.name} waits for '${key}' since ${since.toFixed(1)}`;
      this.violations.push(`at ${this.now().toFixed(1)} ${reader}, another was let in at ${begun.toFixed(1)}, and now somebody writes`);
    }
  }

  private isOwed({ keys, mode, since, isPlain }: JudgedCall, served: JudgedCall): boolean {
    return isPlain && mode === 'read' && keys[0] === served.keys[0] && since <= this.now() - TOLD_WITHIN_MS;
  }
}
