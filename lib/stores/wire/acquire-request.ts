/**
 * A request as acquire.lua takes it: four arguments, because each costs the client and the server something. What only the
 * uncommon ways of the script look at is packed into one text, whose first three fields have a fixed width.
 *
 *     id | leaseMs | <mode><queue><plain> <notAfter> <floor> <fences> <minHoldMs> <longestMs> <replaces> | <owner> <label>
 */
import { toField } from './lock-reply.js';
import type { ScriptArgument } from './script-runner.js';

export interface AcquireFields {
  readonly id: string;
  readonly mode: 'read' | 'write';
  readonly leaseMs: number;
  /** Take a place in the queue when the lock is busy. */
  readonly queue: boolean;
  /** A waiter for which nobody listens is passed over: the messages to its process come from the server that the script runs on. */
  readonly needsListener?: boolean | undefined;
  /** Server time in ms after which the script does nothing; 0 for no such time. */
  readonly notAfter: number;
  /** The highest fence that the caller has seen in the slot group. */
  readonly floor: number;
  readonly fences: number;
  readonly minHoldMs: number;
  /** The longest lease that there can be. */
  readonly longestMs: number;
  /** An id to release in the same step. */
  readonly replaces?: string | undefined;
  readonly owner?: string | undefined;
  readonly label?: string | undefined;
}

const INSTANT_DIGITS = 13;
const FENCE_DIGITS = 16;
const NEVER = '9'.repeat(INSTANT_DIGITS);

export function addAcquire(args: ScriptArgument[], fields: AcquireFields): void {
  const { id, mode, leaseMs, queue, needsListener, notAfter, floor, fences, minHoldMs, longestMs, replaces, owner, label } = fields;
  const isPlain = fences === 1 && minHoldMs === 0 && replaces === undefined;
  const head = `${mode === 'write' ? 'w' : 'r'}${queue ? (needsListener ? 2 : 1) : 0}${isPlain ? 1 : 0}`;
  const limit = notAfter === 0 ? NEVER : String(notAfter).padStart(INSTANT_DIGITS, '0');
  args.push(
    id,
    leaseMs,
    `${head} ${limit} ${String(floor).padStart(FENCE_DIGITS, '0')} ${fences} ${minHoldMs} ${longestMs} ${replaces ?? '-'}`,
    `${owner === undefined ? '-' : toField(owner)} ${label === undefined ? '-' : toField(label)}`,
  );
}
