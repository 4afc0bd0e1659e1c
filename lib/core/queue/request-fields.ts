/** What a request asks the store for, as the options of its asker say it. */
import type { StoreLease } from '../lease/store-lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { AcquireRequest } from '../port/lock-store.js';
import type { Caller } from './caller.js';
import type { ReplacedLease } from './replaced-lease.js';

export abstract class RequestFields implements AcquireRequest {
  readonly key: string;
  readonly options: ResolvedOptions;
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly queue: boolean;
  readonly minHoldMs: number;
  readonly graceMs: number;
  readonly owner: string | undefined;
  readonly permits: number | undefined;
  readonly label: string | undefined;
  readonly minReplicas: number;
  /** The id of {@link replaced}. */
  replaces: string | undefined;
  readonly handsOn: boolean;
  /** After when the store must not act on the request. It is set anew whenever the request is sent. */
  notAfter = 0;

  constructor(
    readonly id: string,
    /** The caller whose options the request carries. */
    readonly asker: Caller<StoreLease>,
    readonly fences: number,
    /** A lease that is released in the same step; undefined once the store has released it. */
    protected replaced: ReplacedLease | undefined,
  ) {
    const { wish, options } = asker;
    this.key = wish.key;
    this.options = options;
    this.mode = options.mode;
    this.leaseMs = Math.min(options.leaseMs, options.maxHoldMs);
    this.queue = options.waitMs > 0;
    this.minHoldMs = options.minHoldMs;
    this.graceMs = options.graceMs;
    this.owner = options.owner;
    this.permits = options.permits;
    this.label = options.label;
    this.minReplicas = options.minReplicas;
    this.replaces = replaced?.id;
    this.handsOn = replaced?.handsOn ?? false;
  }
}
