/**
 * Calls of one script that are made in one turn of the event loop go in one command: a process with many callers spends
 * most of its time on commands, not on locks. Order is kept for each lock. What the server refuses for the keys of one call the
 * scripts answer for that call alone. A bundle that is refused as a whole, of which nothing was done, is sent again call by call.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { Decode, ScriptArgument, ScriptCall, ScriptReply, ScriptRunner } from '../wire/script-runner.js';
import { isTryAgain } from '../wire/store-failure.js';

/** Enough to spare most commands; with more, this process would wait while the server works, and the server while this process does. */
const LARGEST_BUNDLE = 8;

interface Waiting {
  readonly call: ScriptCall;
  readonly decode: Decode<ScriptReply, unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class BundledCalls {
  /** By script and by where it runs. */
  private readonly bundles = new Map<string, Waiting[]>();
  /** The locks that a call waits for. */
  private readonly locks = new Set<string>();

  constructor(private readonly runner: ScriptRunner) {}

  /**
   * Runs a script that takes many as well as one. Calls with the same `source` may share a command. Rejects with
   * LockStoreError; `failed` is told before.
   */
  run<T>(call: ScriptCall, source: number, decode: Decode<ScriptReply, T>, failed?: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const fail = failed ? (error: unknown) => (failed(), reject(error)) : reject;
      this.add({ call, decode, resolve: resolve as (value: unknown) => void, reject: fail }, `${call.script.name} ${source}`);
    });
  }

  private add(waiting: Waiting, name: string): void {
    const lockKey = waiting.call.keys[0]!;
    if (this.locks.has(lockKey)) this.flush();
    if (this.bundles.size === 0) process.nextTick(() => this.flush());
    this.locks.add(lockKey);
    const bundle = this.bundles.get(name);
    if (bundle) bundle.push(waiting);
    else this.bundles.set(name, [waiting]);
  }

  private flush(): void {
    if (this.bundles.size === 0) return;
    const bundles = [...this.bundles.values()];
    this.bundles.clear();
    this.locks.clear();
    for (const bundle of bundles) {
      for (let at = 0; at < bundle.length; at += LARGEST_BUNDLE) this.send(bundle.slice(at, at + LARGEST_BUNDLE));
    }
  }

  private send(calls: readonly Waiting[]): void {
    const [first] = calls as [Waiting];
    if (calls.length === 1) return this.sendAlone(first);
    const { script, timeoutMs } = first.call;
    const keys: string[] = [];
    const args: ScriptArgument[] = [];
    for (const { call } of calls) {
      keys.push(...call.keys);
      args.push(...call.args);
    }
    const together: ScriptCall = { script, timeoutMs, keys, args };
    const answered = (replies: ScriptReply, sentAt: number, receivedAt: number): void => {
      calls.forEach((waiting, n) => this.settle(waiting, (replies as readonly ScriptReply[])[n]!, sentAt, receivedAt));
    };
    this.runner.start(together, answered, () => {}, (error) => {
      if (isRefusal(error)) for (const waiting of calls) this.sendAlone(waiting);
      else for (const { call, reject } of calls) reject(named(error, call.key));
    });
  }

  private sendAlone({ call, decode, resolve, reject }: Waiting): void {
    this.runner.start(call, decode, resolve, reject);
  }

  private settle({ call, decode, resolve, reject }: Waiting, reply: ScriptReply, sentAt: number, receivedAt: number): void {
    try {
      resolve(decode(reply, sentAt, receivedAt));
    } catch (error) {
      reject(this.runner.failureOf(error, call));
    }
  }
}

/** The server answered, and did not do it. */
function isRefusal(error: unknown): boolean {
  const { cause } = error as LockStoreError;
  return isTryAgain(cause) || (cause as { name?: unknown } | undefined)?.name === 'ReplyError';
}

function named({ message, cause, nodes, retryable }: LockStoreError, key: string | undefined): LockStoreError {
  return new LockStoreError(message.replace(/^Locks:/, `Lock '${key}':`), { key, cause, nodes, retryable });
}
