/**
 * The store of one node of a Redlock: that of one Redis, which is asked for votes in place of locks. A node that may have forgotten
 * something stays closed (its recovery has no end of its own) until it was told the fences of the others.
 */
import { LockUsageError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { LockState } from '../../core/port/lock-state.js';
import { RedisStore, type RedisStoreOptions } from '../redis/redis-store.js';
import { listOf } from '../wire/lock-reply.js';
import { admitCall, readAdmit, readSurveyHead, surveyCall, surveyHeadSize, voteCall, type SurveyHead } from '../wire/lua.generated.js';
import { SLOT_GROUPS, UNKNOWN_MEMORY, type Spot } from '../wire/redis-keys.js';
import { LONG_AGO } from '../wire/server-clock.js';
import type { Hear } from './poll.js';

/** What a node remembers: whether it is closed for it may have forgotten something, since when it remembers, and the last fence of each slot group. */
export interface Survey extends SurveyHead {
  readonly fences: readonly number[];
}

/** `mark`: what the process waits for as well (marks.lua). */
export type NodeRelease = ReleaseRequest & { readonly mark?: string | undefined };

/** For how long an inspection waits for a node that does not answer, in ms. */
const INSPECTED_WITHIN_MS = 500;

export class NodeStore extends RedisStore {
  /** When a question was sent last that was not answered in time. */
  muteSince = -Infinity;

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

  /** Calls `listener` at each new connection, which may lead to another server. */
  onConnected(listener: () => void): void {
    this.connections.commands.onOpen(listener);
  }

  /** Ends this connection and makes a new one. */
  reconnect(): void {
    this.connections.commands.drop();
  }

  /**
   * Releases an id, and gives this process the mark of a request that waits. A callback stands in place of a promise, because each lock is
   * released on every node.
   */
  leave(request: NodeRelease, spot: Spot, hear: Hear<'released' | 'lost'>): void {
    this.releases.send(request, spot, hear, hear);
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
    return eachGroup((group) => this.parts.keys.fence(group));
  }
}

export function eachGroup<T>(of: (group: number) => T): T[] {
  return Array.from({ length: SLOT_GROUPS }, (_, group) => of(group));
}
