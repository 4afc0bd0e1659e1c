/**
 * How replies of the scripts are read: the words of the port on one side, flat lists on the other.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import type { HolderState, LockState, WaiterState } from '../../core/port/lock-store.js';
import type { RenewArgs } from './lua.generated.js';
import { fromField } from './record-field.js';
import type { ScriptReply } from './script-runner.js';

/** A grant on the server's clock. */
export interface ServerGrant {
  readonly fence: number;
  readonly fences: number;
  readonly mode: LockMode;
  /** Last instant of the lease, in server ms. */
  readonly end: number;
  readonly contended: boolean;
}

/** A script answered something that it cannot: another version of it, or something between us and the server. */
function unexpected(reply: ScriptReply): Error {
  return new Error(`an answer that no script of ours gives: ${JSON.stringify(reply)}`);
}

/** @throws Error with the server's words, for what it refused of many (refusal.lua) */
export function listOf(reply: ScriptReply): readonly (number | string)[] {
  if (!Array.isArray(reply)) throw unexpected(reply);
  const list = reply as readonly (number | string)[];
  if (list[0] === 'refused') throw new Error(String(list[1]));
  return list;
}

/** A list of numbers, some of which may have come as text. */
export function numbersOf(reply: ScriptReply): readonly number[] {
  const list = listOf(reply);
  if (typeof list[0] !== 'number') throw unexpected(reply);
  return list.map(Number);
}

/** What release.lua says of one id. */
export function releaseOutcome(reply: ScriptReply): 'released' | 'lost' {
  if (reply === 1) return 'released';
  if (reply === 0) return 'lost';
  listOf(reply);
  throw unexpected(reply);
}

/** Reads five numbers from `at`: fence, fences, mode, end, contended. */
export function grantAt(reply: readonly number[], at: number): ServerGrant {
  const [fence = 0, fences = 1, write, end = 0, contended] = reply.slice(at, at + 5);
  return { fence, fences, mode: write === 1 ? 'write' : 'read', end, contended: contended === 1 };
}

/** Leases as renew.lua is told of them: those of one length that follow each other share it, which nearly all do. */
export function runsOf(requests: readonly { readonly id: string; readonly leaseMs: number }[]): RenewArgs['runs'] {
  const runs: { leaseMs: number; ids: string }[] = [];
  for (const { id, leaseMs } of requests) {
    const length = Math.floor(leaseMs);
    const last = runs.at(-1);
    if (last?.leaseMs === length) last.ids += ` ${id}`;
    else runs.push({ leaseMs: length, ids: id });
  }
  return runs;
}

/**
 * Of each lease what became of it: what was asked for, but where the reply says otherwise. A lost one has -1 ms left; of one
 * whose key the server refused, its words are told.
 */
export function renewOutcomes<R extends { readonly leaseMs: number }, T>(
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
    outcomes[place] = typeof left === 'string' ? refused(left, requests[place]!) : outcomeOf(left, contended === 1);
  }
  return outcomes;
}

/** Who waits is told in the order of service if nobody else comes: phases alternate, all readers of one enter together. */
export function lockState(key: string, reply: ScriptReply): LockState {
  const [phase, holderCount, ...fields] = listOf(reply);
  const holders: HolderState[] = [];
  const readers: WaiterState[] = [];
  const writers: WaiterState[] = [];
  let at = 0;
  while (holders.length < Number(holderCount)) {
    const [id, fence, owner, remainingMs, label] = fields.slice(at, (at += 5));
    holders.push({ id: String(id), fence: Number(fence), owner: fromField(owner), remainingMs: Number(remainingMs), label: fromField(label) });
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
