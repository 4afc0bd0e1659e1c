/**
 * Writes a request as acquire.lua reads it: in four arguments, because each argument costs time in the client and the server. What
 * only the less common paths of the script need is packed into one text, whose first three fields have a fixed width.
 *
 *     id | leaseMs | <mode><queue><plain> <notAfter> <floor> <fences> <minHoldMs> <graceMs> <longestMs> <replaces> | <owner> <label>
 */
import { toField } from './lock-reply.js';
import type { ScriptArgument } from './script-runner.js';

export interface AcquireFields {
  readonly id: string;
  readonly mode: 'read' | 'write';
  readonly leaseMs: number;
  /** Whether the request takes a place in the queue when the lock is busy. */
  readonly queue: boolean;
  /** A waiter for which nobody listens is passed over: the messages to its process come from the server that the script runs on. */
  readonly needsListener?: boolean | undefined;
  /** The server time in ms after which the script does nothing; 0 for no limit. */
  readonly notAfter: number;
  /** The highest fence that this process has seen in the slot group. */
  readonly floor: number;
  readonly fences: number;
  readonly minHoldMs: number;
  readonly graceMs?: number | undefined;
  /** The longest lease that any process asks for (maxLeaseMs). */
  readonly longestMs: number;
  /** The id of a lease to release in the same step. */
  readonly replaces?: string | undefined;
  readonly owner?: string | undefined;
  readonly label?: string | undefined;
}

const INSTANT_DIGITS = 13;
const FENCE_DIGITS = 16;
const NEVER = '9'.repeat(INSTANT_DIGITS);

export function addAcquire(args: ScriptArgument[], fields: AcquireFields): void {
  const { id, mode, leaseMs, queue, needsListener, notAfter, floor, fences, minHoldMs, graceMs = 0, longestMs, replaces, owner, label } = fields;
  const isPlain = fences === 1 && minHoldMs === 0 && graceMs === 0 && replaces === undefined;
  const head = `${mode === 'write' ? 'w' : 'r'}${queue ? (needsListener ? 2 : 1) : 0}${isPlain ? 1 : 0}`;
  const limit = notAfter === 0 ? NEVER : String(notAfter).padStart(INSTANT_DIGITS, '0');
  args.push(
    id,
    leaseMs,
    `${head} ${limit} ${String(floor).padStart(FENCE_DIGITS, '0')} ${fences} ${minHoldMs} ${graceMs} ${longestMs} ${replaces ?? '-'}`,
    `${owner === undefined ? '-' : toField(owner)} ${label === undefined ? '-' : toField(label)}`,
  );
}
