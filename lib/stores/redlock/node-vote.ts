/**
 * The request for a grant to a node of a Redlock, and the node's answer: how it is read from the script's reply, counted in a
 * quorum, and described in messages.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import type { LockState } from '../../core/port/lock-state.js';
import type { AcquireRequest } from '../../core/port/lock-store.js';
import type { VoteReply } from '../wire/lua.generated.js';
import type { NodeSpot } from '../wire/redis-keys.js';
import { trustOf } from '../wire/server-clock.js';
import type { Reply } from './poll.js';
import type { Vote } from './quorum.js';
import { patienceMs } from './retry-pause.js';

/** The request of a ballot to every node. */
export interface VoteRequest {
  readonly on: NodeSpot;
  /** The ballot's id. */
  readonly id: string;
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly fences: number;
  readonly minHoldMs: number;
  readonly graceMs: number;
  readonly owner: string | undefined;
  readonly label: string | undefined;
  /** For how long its holder has been refused; {@link DOES_NOT_WAIT}; or {@link HAS_IT_ELSEWHERE}. */
  readonly waitedMs: number;
  /** How long a node should keep the lock for the process when its turn has come, in ms. */
  readonly patienceMs: number;
}

/** The request of one ballot with this id. `waitedMs`: for how long its holder has been refused, or {@link DOES_NOT_WAIT}. */
export function voteRequestOf(request: AcquireRequest, on: NodeSpot, id: string, waitedMs: number, tookMs: number): VoteRequest {
  const { mode, fences, owner, label, graceMs = 0 } = request;
  const leaseMs = Math.floor(request.leaseMs);
  return { on, id, mode, leaseMs, fences, minHoldMs: Math.floor(request.minHoldMs), graceMs, owner, label, waitedMs, patienceMs: patienceMs(tookMs) };
}

export type NodeVote =
  | {
      readonly kind: 'granted';
      readonly fence: number;
      readonly mode: LockMode;
      /** The local instant until which the node's lease can be trusted. */
      readonly end: number;
      /** Whether the fence is that of the owner's present hold. */
      readonly shared: boolean;
      /** The local instant at which the granted request was sent. */
      readonly sentAt: number;
      /** The process that has waited longest, if another one waits. */
      readonly next?: string | undefined;
    }
  /** `leftMs`: the time until the present lease ends; Infinity when it is another process's turn. */
  | { readonly kind: 'busy'; readonly leftMs: number }
  | { readonly kind: 'quarantined'; readonly leftMs: number }
  | { readonly kind: 'upgrade' | 'full' | 'late' | 'not admitted' };

export type GrantedVote = Extract<NodeVote, { kind: 'granted' }>;

export interface RenewPart {
  readonly key: string;
  /** The ballot's id. */
  readonly id: string;
  readonly leaseMs: number;
  readonly graceMs: number;
}

/** What a node is told when a ballot is released or taken back. */
export interface Leaving {
  readonly on: NodeSpot;
  /** The ballot's id. */
  readonly id: string;
  /** A local instant not later than the sending of this, by default now. */
  readonly askedAt?: number | undefined;
  /** Whether its lease may have ended before, so that the node looks at its clock; false where nobody wants to know. */
  readonly mayBeOver?: boolean | undefined;
  /** Whether no work was done under it, so that no minHoldMs is owed. */
  readonly abandoned?: boolean | undefined;
  /** The process that should have the lock next, as far as the holder knows. */
  readonly next?: string | undefined;
  /** The new mark of this process; the mark stays as it is when this is undefined. */
  readonly mark?: Mark | undefined;
}

/** The mark of a process that waits. */
export interface Mark {
  readonly mode: LockMode;
  /** For how long the process has waited, in ms; {@link DOES_NOT_WAIT} when it does not want the lock any more. */
  readonly waitedMs: number;
  readonly patienceMs: number;
}

/** As `waitedMs`: nobody in the process waits. */
export const DOES_NOT_WAIT = -1;
/** As `waitedMs`: the vote is for a lock that other nodes granted already, and goes before all who wait. */
export const HAS_IT_ELSEWHERE = -2;

/** Of a process in which nobody waits: a node removes its mark then. */
export const NO_MARK: Mark = { mode: 'write', waitedMs: DOES_NOT_WAIT, patienceMs: 0 };

/** A lease on a node after a renewal. */
export interface RenewedThere {
  /** The local instant until which the lease can be trusted on this node. */
  readonly end: number;
  readonly contended: boolean;
}

/** `ends` stand in the order of the holders. */
export interface NodeView {
  readonly state: LockState;
  readonly ends: readonly number[];
}

/** What a reply of vote.lua means here: its times become instants of this process. */
export function voteOf(told: VoteReply, sentAt: number): NodeVote {
  switch (told.kind) {
    case 'busy':
      return { kind: 'busy', leftMs: told.leftMs < 0 ? Infinity : told.leftMs };
    case 'granted': {
      const { fence, leftMs, mode, shared, next } = told;
      return { kind: 'granted', fence, mode, end: trustOf(leftMs, sentAt), shared, sentAt, next };
    }
    case 'quarantined':
      return { kind: 'quarantined', leftMs: told.leftMs };
    case 'upgrade':
    case 'late':
    case 'full':
    case 'not admitted':
      return { kind: told.kind };
  }
}

/**
 * What an answer is counted as. A number is the fence of the owner's hold, in which the node granted a share: nodes that answer
 * different fences do not agree.
 */
export type Word = 'granted' | number | 'upgrade' | 'full' | 'against';

/** How an answer counts. A node that failed cannot grant, which counts as a vote against. */
export function wordOf(reply: Reply<NodeVote> | undefined): Vote<Word> {
  if (reply === undefined) return undefined;
  if (reply.kind === 'failure') return 'against';
  const { answer } = reply;
  if (answer.kind === 'granted') return answer.shared ? answer.fence : 'granted';
  return answer.kind === 'upgrade' || answer.kind === 'full' ? answer.kind : 'against';
}

/** How an answer is described in messages. */
export function textOfVote(vote: NodeVote): string {
  switch (vote.kind) {
    case 'granted':
      return 'granted';
    case 'busy':
      return 'busy';
    case 'quarantined':
      return `restarted or flushed, and stays out until what it may have forgotten has ended, in ${vote.leftMs} ms`;
    case 'not admitted':
      return 'lost its memory, and waits to be told the last fences by a quorum of other nodes';
    case 'late':
      return 'received the request after its deadline';
    case 'upgrade':
      return 'the owner reads';
    case 'full':
      return 'the owner has as many holds as can be';
  }
}
