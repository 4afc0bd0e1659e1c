/**
 * Bundles requests for one script that are made in one turn of the event loop into one command, because a process with many callers
 * spends most of its time on commands. A bundle is sent as soon as it is full, and the others at the end of the turn, so that
 * the server works on the first while this process makes the next. The requests for one lock are sent in the order they were made.
 *
 * A bundle that the server refuses as a whole is sent again request by request, which the scripts allow.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { LuaScript } from './lua.generated.js';
import type { Errand, ScriptArgument, ScriptReply, ScriptRunner } from './script-runner.js';
import { isTryAgain } from './store-failure.js';

/** How many requests one command has at most. With more, server and process would wait for each other instead of working side by side. */
const LARGEST_BUNDLE = 8;

/** A request for a script that takes several requests in one call. */
export interface BundledRequest {
  /** The key of the lock that it is about. */
  readonly key: string;
  readonly lockKey: string;
  /** A local instant not later than its sending; undefined when nothing is counted from it. */
  readonly askedAt: number | undefined;
  addTo(keys: string[], args: ScriptArgument[]): void;
  /** Called with its part of the reply. When it throws, {@link failed} is called with the error. */
  answered(reply: ScriptReply, sentAt: number): void;
  failed(error: LockStoreError): void;
}

export class Bundles {
  private readonly open: Bundle[] = [];
  private willFlush = false;

  constructor(private readonly runner: ScriptRunner) {}

  /** Requests for one script with the same `source` may share a command. */
  add(script: LuaScript, source: number, request: BundledRequest): void {
    const { open } = this;
    let bundle: Bundle | undefined;
    for (const each of open) {
      // An earlier request for this lock is sent first.
      if (each.isAbout(request.lockKey)) return this.addAfterAll(script, source, request);
      if (each.script === script && each.source === source) bundle = each;
    }
    if (!bundle) open.push((bundle = new Bundle(this.runner, script, source)));
    bundle.requests.push(request);
    if (bundle.requests.length === LARGEST_BUNDLE) {
      open.splice(open.indexOf(bundle), 1);
      bundle.leave();
    } else if (!this.willFlush) {
      this.willFlush = true;
      process.nextTick(this.flush);
    }
  }

  /** All requests that are not answered yet, sent or not. */
  *underway(): Iterable<BundledRequest> {
    for (const bundle of this.open) yield* bundle.requests;
    for (const errand of this.runner.underway()) if (errand instanceof Bundle) yield* errand.requests;
  }

  private addAfterAll(script: LuaScript, source: number, request: BundledRequest): void {
    this.flush();
    this.add(script, source, request);
  }

  private readonly flush = (): void => {
    this.willFlush = false;
    for (const bundle of this.open.splice(0)) bundle.leave();
  };
}

class Bundle implements Errand {
  readonly requests: BundledRequest[] = [];
  readonly redisKeys: string[] = [];
  readonly timeoutMs = undefined;
  private readonly args: ScriptArgument[] = [];

  constructor(
    private readonly runner: ScriptRunner,
    readonly script: LuaScript,
    readonly source: number,
  ) {}

  get what(): string {
    return this.script.name;
  }

  /** The key of its only request. With several an error of the whole command is about no single lock. */
  get key(): string | undefined {
    return this.requests.length === 1 ? this.requests[0]!.key : undefined;
  }

  get askedAt(): number | undefined {
    return this.requests[0]!.askedAt;
  }

  isAbout(lockKey: string): boolean {
    for (const request of this.requests) if (request.lockKey === lockKey) return true;
    return false;
  }

  leave(): void {
    for (const request of this.requests) request.addTo(this.redisKeys, this.args);
    this.runner.perform(this);
  }

  send(): Promise<unknown> {
    return this.runner.evalsha(this.script, this.redisKeys, this.args);
  }

  sendSource(): Promise<unknown> {
    return this.runner.eval(this.script, this.redisKeys, this.args);
  }

  answered(reply: unknown, sentAt: number): void {
    const { requests } = this;
    if (requests.length === 1) return requests[0]!.answered(reply as ScriptReply, sentAt);
    const replies = reply as readonly ScriptReply[];
    requests.forEach((request, n) => this.tell(request, replies[n]!, sentAt));
  }

  failed(error: LockStoreError): void {
    const { requests } = this;
    if (requests.length === 1) return requests[0]!.failed(error);
    if (isRefusal(error)) for (const request of requests) this.sendAlone(request);
    else for (const request of requests) request.failed(named(error, request.key));
  }

  private tell(request: BundledRequest, reply: ScriptReply, sentAt: number): void {
    try {
      request.answered(reply, sentAt);
    } catch (error) {
      const redisKeys: string[] = [];
      request.addTo(redisKeys, []);
      request.failed(this.runner.failureOf(error, this.what, request.key, redisKeys));
    }
  }

  private sendAlone(request: BundledRequest): void {
    const alone = new Bundle(this.runner, this.script, this.source);
    alone.requests.push(request);
    alone.leave();
  }
}

/** Whether the server answered with an error, so that it did not run the script. */
function isRefusal(error: LockStoreError): boolean {
  const { cause } = error;
  return isTryAgain(cause) || (cause as { name?: unknown } | undefined)?.name === 'ReplyError';
}

function named({ message, cause, nodes, retryable }: LockStoreError, key: string): LockStoreError {
  return new LockStoreError(message.replace(/^Locks:/, `Lock '${key}':`), { key, cause, nodes, retryable });
}
