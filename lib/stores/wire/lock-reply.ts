/**
 * Translates between the words of the port and the flat lists that the scripts take and return.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import type { HolderState, LockState, WaiterState } from '../../core/port/lock-store.js';
import { untilFree } from '../../core/port/until-free.js';
import type { ScriptArgument, ScriptReply } from './script-runner.js';

/** A grant whose end is in the server's time. */
export interface ServerGrant {
  readonly fence: number;
  readonly fences: number;
  readonly mode: LockMode;
  /** The last instant of the lease, in ms of the server's clock. */
  readonly end: number;
  readonly contended: boolean;
}

/** The error for a reply that no script of this version gives: something else between this process and the server has answered. */
function unexpected(reply: ScriptReply): Error {
  return new Error(`an answer that no script of ours gives: ${JSON.stringify(reply)}`);
}

/** The reply as a list. @throws Error with the server's words when it refused this request of several (refusal.lua) */
export function listOf(reply: ScriptReply): readonly (number | string)[] {
  if (!Array.isArray(reply)) throw unexpected(reply);
  const list = reply as readonly (number | string)[];
  if (list[0] === 'refused') throw new Error(String(list[1]));
  return list;
}

/** The reply as a list of numbers, some of which may have come as text. */
export function numbersOf(reply: ScriptReply): readonly number[] {
  const list = listOf(reply);
  if (typeof list[0] !== 'number') throw unexpected(reply);
  return list.map(Number);
}

/** The outcome that release.lua returns for one id. */
export function releaseOutcome(reply: ScriptReply): 'released' | 'lost' {
  if (reply === 1) return 'released';
  if (reply === 0) return 'lost';
  listOf(reply);
  throw unexpected(reply);
}

/** The grant in the five numbers from `at`: fence, fences, mode, end, contended. */
export function grantAt(reply: readonly number[], at: number): ServerGrant {
  const [fence = 0, fences = 1, write, end = 0, contended] = reply.slice(at, at + 5);
  return { fence, fences, mode: write === 1 ? 'write' : 'read', end, contended: contended === 1 };
}

/** The arguments of renew.lua for these leases. Leases of the same length that follow each other share it, as nearly all do. */
export function renewArgs(requests: readonly { readonly id: string; readonly leaseMs: number; readonly graceMs?: number | undefined }[]): ScriptArgument[] {
  const args: ScriptArgument[] = [];
  for (const { id, leaseMs, graceMs = 0 } of requests) {
    const length = Math.floor(leaseMs) + graceMs;
    if (args.at(-2) === length) args[args.length - 1] += ` ${id}`;
    else args.push(length, id);
  }
  return args;
}

/**
 * The outcome of each renewal. The reply of renew.lua lists only leases that did not just get what was asked for. A lost one has
 * -1 ms left; for one whose Redis key the server refused, `refused` gets the server's words.
 */
export function renewOutcomes<R extends { readonly leaseMs: number; readonly graceMs?: number | undefined }, T>(
  reply: ScriptReply,
  requests: readonly R[],
  outcomeOf: (leftMs: number, contended: boolean) => T,
  refused: (words: string, request: R) => T,
): T[] {
  const news = listOf(reply);
  const outcomes = requests.map(({ leaseMs }) => outcomeOf(Math.floor(leaseMs), false));
  for (let at = 1; at < news.length; at += 3) {
    const [position = 0, left = -1, contended] = news.slice(at, at + 3);
    const place = Number(position) - 1;
    const { graceMs = 0 } = requests[place]!;
    outcomes[place] = typeof left === 'string' ? refused(left, requests[place]!) : outcomeOf(left < 0 ? left : Math.max(0, left - graceMs), contended === 1);
  }
  return outcomes;
}

const PLAIN = /^(?!-$)[!-$&-~]+$/;

/** Writes a text as one field of a record: without spaces, and `-` for no text. */
export function toField(text: string | undefined): string {
  if (text === undefined || text === '') return '-';
  if (PLAIN.test(text)) return text;
  return text === '-' ? '%2D' : encodeURIComponent(text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`));
}

function fromField(field: string | number | undefined): string | undefined {
  return field === '-' || field === undefined ? undefined : decodeURIComponent(String(field));
}

/** The state of a lock from the reply of inspect.lua. Waiters are in the order of service: phases alternate, readers enter together. */
export function lockState(key: string, reply: ScriptReply): LockState {
  const [phase, holderCount, ...fields] = listOf(reply);
  const holders: HolderState[] = [];
  const readers: WaiterState[] = [];
  const writers: WaiterState[] = [];
  let at = 0;
  while (holders.length < Number(holderCount)) {
    const [id, fence, owner, leftMs, label, graceMs] = fields.slice(at, (at += 6));
    const left = untilFree(Number(leftMs), Number(graceMs));
    holders.push({ id: String(id), fence: Number(fence), owner: fromField(owner), label: fromField(label), ...left });
  }
  while (at < fields.length) {
    const [id, mode, label] = fields.slice(at, (at += 3));
    const waiter: WaiterState = { id: String(id), mode: mode === 'w' ? 'write' : 'read', label: fromField(label) };
    (waiter.mode === 'write' ? writers : readers).push(waiter);
  }
  const waiters = phase === 'w' ? [...readers, ...writers] : [...writers.slice(0, 1), ...readers, ...writers.slice(1)];
  const mode = holders.length === 0 ? null : phase === 'w' ? 'write' : 'read';
  return { key, mode, holders, waiters };
}
