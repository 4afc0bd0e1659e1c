/**
 * The wire format, on which all processes of a prefix must agree: with another one they would not exclude each other. It is written on
 * the server by the first process that boots, and once more by those that run when the server has forgotten it. A process whose own
 * version is newer writes the version on which they agreed, if it still can.
 */
import { pause, type Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';
import { agreeCall, readAgree } from './lua.generated.js';
import { FORMAT_VERSION, OLDEST_VERSION, SLOT_GROUPS, type RedisKeys } from './redis-keys.js';
import type { ScriptRunner } from './script-runner.js';

/** The pause before a server that did not answer is asked again, in ms. */
const AGREES_AGAIN_AFTER_MS = 100;

export class WireFormat {
  private version = FORMAT_VERSION;
  private isKeeping = false;

  constructor(
    private readonly runner: ScriptRunner,
    private readonly keys: RedisKeys,
    private readonly node: string,
    private readonly clock: Clock,
    /** The longest lease that a process of the prefix may take, in ms, as far as this one was told. */
    public longestMs: number,
    /** Is called with the longest lease on which all agreed. */
    private readonly agreed: (longestMs: number) => void,
  ) {}

  /** Writes the format where there is none. @throws LockStoreError when the server does not answer, or other processes have another one */
  async agree(): Promise<void> {
    const { runner, keys, node, version, longestMs } = this;
    const ours = { oldest: OLDEST_VERSION, newest: version, groups: SLOT_GROUPS, maxLeaseMs: longestMs };
    const told = await runner.run(agreeCall({ formatKey: keys.format }, ours), readAgree);
    if (told.kind === 'agreed') {
      this.version = told.version;
      this.longestMs = told.longestMs;
      this.agreed(told.longestMs);
      return;
    }
    const own = `version=${version} groups=${SLOT_GROUPS}`;
    throw new LockStoreError(
      `Locks: the processes that use prefix '${keys.prefix}' on ${node} must agree on their format: found '${told.format}', this process has '${own}'. ` +
        `Run versions that understand each other; or, when no other process runs any more, delete the key ${keys.format}.`,
      { nodes: [{ node, reason: `format '${told.format}' instead of '${own}'` }], retryable: false },
    );
  }

  /** Agrees on it with a server that may have forgotten it, until that is answered or nobody wants it any more. Reports what cannot be right. */
  async keep(isWanted: () => boolean, report: Report): Promise<void> {
    if (this.isKeeping) return;
    this.isKeeping = true;
    let error: LockStoreError | void;
    do error = await this.agree().catch((failure: LockStoreError) => failure);
    while (error?.retryable && isWanted() && (await pause(this.clock, AGREES_AGAIN_AFTER_MS)));
    this.isKeeping = false;
    if (error && isWanted()) report({ kind: `format on ${this.node}`, level: 'error', message: error.message });
  }
}
