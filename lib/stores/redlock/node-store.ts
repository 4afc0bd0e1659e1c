/**
 * The store of one node of a Redlock: that of one Redis, which is asked for votes in place of locks. A node that may have forgotten
 * something stays closed (its recovery has no end of its own) until it was told the fences of the others.
 */
import { LockUsageError, type LockStoreError } from '../../core/port/errors.js';
import type { LockMode } from '../../core/port/lock-options.js';
import type { LockState } from '../../core/port/lock-state.js';
import { RedisStore, type RedisStoreOptions } from '../redis/redis-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { listOf } from '../wire/lock-reply.js';
import {
  addVote, admitCall, readAdmit, readSurveyHead, readVote, surveyCall, surveyHeadSize, vote, voteCall, type ScriptArgument, type SurveyHead, type VoteArgs, type VoteReply,
} from '../wire/lua.generated.js';
import { SLOT_GROUPS, UNKNOWN_MEMORY, type LockSpot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, trustOf } from '../wire/server-clock.js';
import { unexpected } from '../wire/store-failure.js';
import type { Hear, Reply } from './poll.js';
import type { Vote } from './quorum.js';

/** What all nodes are asked for alike. */
export interface VoteTerms extends Omit<VoteArgs, 'notAfter' | 'known' | 'proposal'> {
  readonly timeoutMs: number;
}

export interface GrantedVote {
  readonly kind: 'granted';
  readonly fence: number;
  readonly mode: LockMode;
  /** The local instant until which the node's lease can be trusted. */
  readonly end: number;
  /** Whether the fence is that of the owner's present hold. */
  readonly shared: boolean;
  readonly contended: boolean;
  /** The local instant at which the granted request was sent. */
  readonly sentAt: number;
  /** The memory of the node that made it. */
  readonly memory: string;
}

/** `leftMs` of a node that is busy: the time until the present lease ends, or -1 when it is another process's turn. */
export type NodeVote = GrantedVote | Extract<VoteReply, { kind: 'busy' | 'upgrade' | 'full' | 'late' | 'closed' }>;

/** What a node remembers: whether it is closed for it may have forgotten something, since when it remembers, and the last fence of each slot group. */
export interface Survey extends SurveyHead {
  readonly fences: readonly number[];
}

/** For how long an inspection waits for a node that does not answer, in ms. */
const INSPECTED_WITHIN_MS = 500;

export class NodeStore extends RedisStore {
  /** When a question was sent last that was not answered in time. */
  private muteSince = -Infinity;

  /** @throws LockUsageError */
  constructor(options: RedisStoreOptions) {
    super(options);
    if (this.connections.isCluster) throw new LockUsageError('Lock options: a node of a Redlock must be a single master, not a Cluster.');
  }

  /** Opens the store, and teaches the server the script of votes: sent again as text, a vote could be overtaken by the release of its ballot. */
  override async open(): Promise<void> {
    await super.open();
    const { runner, keys } = this.parts;
    const terms = { id: '-', mode: 'write', leaseMs: 1, plain: true, fences: 1, minHoldMs: 0, graceMs: 0, waitedMs: -1, patienceMs: 0, proposal: 1 } as const;
    // It comes after its limit, and does nothing.
    await runner.run(voteCall(keys.spotOf(''), { ...terms, notAfter: LONG_AGO, known: UNKNOWN_MEMORY, owner: undefined, label: undefined }), () => undefined);
  }

  get name(): string {
    return this.server;
  }

  /** Whether there is a connection on which the server has answered. */
  get isConnected(): boolean {
    return this.connections.commands.state.isOpen;
  }

  /** Whether it left a question without an answer in time, and has answered nothing since. */
  get isSilent(): boolean {
    const { owesSince = Infinity } = this.parts.runner.line;
    return owesSince <= this.muteSince;
  }

  spotOf(key: string): LockSpot {
    return this.parts.spots.of(key);
  }

  /** Calls `listener` at each new connection, which may lead to another server. */
  onConnected(listener: () => void): void {
    this.connections.commands.onOpen(listener);
  }

  /** Ends this connection and makes a new one. */
  reconnect(): void {
    this.connections.commands.drop();
  }

  /** Asks for the node's vote. `notAfter`: the local instant after which it must not vote any more. */
  vote(terms: VoteTerms, spot: LockSpot, proposal: number, notAfter: number, hear: Hear<NodeVote>): void {
    const { bundles, clock, trust } = this.parts;
    const ask = (): void => bundles.add(vote, 0, new VoteRequest(this.parts, spot, terms, proposal, notAfter, heard, failed));
    const heard = (answer: NodeVote, hadLimit: boolean): void => {
      // Where the time of the node was not known, the request was too late by any clock, and only learned the time.
      if (answer.kind === 'late' && !hadLimit && clock.now() < notAfter) return ask();
      if (answer.kind === 'granted') trust.floors.saw(spot.group, answer.fence + terms.fences - 1);
      hear({ kind: 'answer', answer });
    };
    const failed = (error: LockStoreError, askedAt: number): void => {
      this.muteSince = askedAt;
      hear({ kind: 'failure', error });
    };
    ask();
  }

  override async inspect(key: string): Promise<LockState> {
    const askedAt = this.parts.clock.now();
    try {
      return await super.inspect(key, Math.min(this.options.commandTimeoutMs, INSPECTED_WITHIN_MS));
    } catch (error) {
      this.muteSince = askedAt;
      throw error;
    }
  }

  /** Writes the wire format on a server that may have lost its data: another version may have used it first. Rejects with LockStoreError. */
  claimFormat(): Promise<void> {
    return this.format.claim();
  }

  survey(): Promise<Survey> {
    const { runner, trust } = this.parts;
    return runner.run(surveyCall({ fenceKeys: this.fenceKeys() }), (reply, sentAt, receivedAt) => {
      const told = listOf(reply);
      const head = readSurveyHead(told);
      trust.observe(0, { sentAt, receivedAt, serverNow: head.now });
      return { ...head, fences: told.slice(surveyHeadSize).map(Number) };
    });
  }

  /** Lets the node vote again, if it has not forgotten anything since the survey, and what it forgot had `maxLeaseMs` to end. */
  admit(since: number, maxLeaseMs: number, floors: readonly number[]): Promise<boolean> {
    const call = admitCall({ fenceKeys: this.fenceKeys() }, { maxLeaseMs, since, floors });
    return this.parts.runner.run(call, (reply) => readAdmit(reply) === 'admitted');
  }

  private fenceKeys(): string[] {
    return Array.from({ length: SLOT_GROUPS }, (_, group) => this.parts.keys.fence(group));
  }
}

class VoteRequest implements BundledRequest {
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number;
  readonly timeoutMs: number;
  private readonly limit: number;
  /** What was known of the node's memory when the request was sent, and on which connection. */
  private known = UNKNOWN_MEMORY;
  private connection = 0;

  constructor(
    private readonly parts: NodeStore['parts'],
    private readonly spot: LockSpot,
    private readonly terms: VoteTerms,
    private readonly proposal: number,
    notAfter: number,
    private readonly hear: (vote: NodeVote, hadLimit: boolean) => void,
    private readonly hearFailure: (error: LockStoreError, askedAt: number) => void,
  ) {
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.timeoutMs = terms.timeoutMs;
    this.askedAt = parts.clock.now();
    this.limit = parts.trust.clock.before(0, notAfter, this.askedAt);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { terms, proposal, parts, spot } = this;
    this.known = parts.memories.of(spot.group);
    this.connection = parts.memories.connection;
    addVote(keys, args, spot, { ...terms, proposal, notAfter: this.limit || LONG_AGO, known: this.known });
  }

  answered(reply: ScriptReply, sentAt: number): void {
    const { parts } = this;
    const told: VoteReply = typeof reply === 'number' ? this.asAsked(reply) : readVote(listOf(reply));
    parts.trust.observe(0, { sentAt, receivedAt: parts.clock.now(), serverNow: told.now });
    if (told.kind !== 'granted') return this.hear(told, this.limit > 0);
    const { fence, leftMs, mode, shared, contended, memory = this.known } = told;
    parts.recovery.compare(this.spot.group, memory, this.connection);
    this.hear({ kind: 'granted', fence, mode, end: trustOf(leftMs, sentAt), shared, contended, sentAt, memory }, true);
  }

  failed(error: LockStoreError): void {
    this.hearFailure(error, this.askedAt);
  }

  /** What the node says that granted what was asked for: no more than its time. */
  private asAsked(now: number): VoteReply {
    // Other scripts answer 0 and 1, which are no time.
    if (now <= 1) throw unexpected(now);
    const { leaseMs, mode } = this.terms;
    return { kind: 'granted', now, fence: this.proposal, leftMs: leaseMs, mode, shared: false, contended: false, memory: undefined };
  }
}

/**
 * What an answer is counted as. A number is the fence of the owner's hold, in which the node granted a share: nodes that answer
 * different fences do not agree. A node that failed cannot grant, which counts as a vote against.
 */
export type Word = 'granted' | number | 'upgrade' | 'full' | 'against';

export function wordOf(reply: Reply<NodeVote> | undefined): Vote<Word> {
  if (reply === undefined) return undefined;
  if (reply.kind === 'failure') return 'against';
  const { answer } = reply;
  if (answer.kind === 'granted') return answer.shared ? answer.fence : 'granted';
  return answer.kind === 'upgrade' || answer.kind === 'full' ? answer.kind : 'against';
}

/** How an answer is described in messages. */
export function textOfVote({ kind }: NodeVote): string {
  const texts: Partial<Record<NodeVote['kind'], string>> = {
    closed: 'restarted or flushed, and stays out until it was told the last fences',
    late: 'received the request after its deadline',
    upgrade: 'the owner reads',
    full: 'the owner has as many holds as can be',
  };
  return texts[kind] ?? kind;
}
