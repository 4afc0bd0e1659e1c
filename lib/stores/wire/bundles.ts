/**
 * Bundles requests for one script that are made in one turn of the event loop into one command, because a process with many callers
 * spends most of its time on commands. A bundle is sent as soon as it is full, and the others at the end of the turn, so that
 * the server works on the first while this process makes the next. The requests for one lock are sent in the order they were made.
 *
 * A bundle that the server refuses as a whole is sent again request by request, which the scripts allow.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { Connection } from './connections.js';
import type { Errand, ScriptReply, ScriptRunner } from './script-runner.js';
import type { LuaScript, ScriptArgument } from './lua.generated.js';
import type { Sender, ServerConnection } from './server-connection.js';
import { isReply } from './store-failure.js';

/** How many requests one command has at most. With more, server and process would wait for each other instead of working side by side. */
const LARGEST_BUNDLE = 8;

const NOTHING: readonly ScriptArgument[] = [];

/** A request for a script that takes several requests in one call. */
export interface BundledRequest {
  /** The key of the lock that it is about. */
  readonly key: string;
  readonly lockKey: string;
  /** Whether it may be in one command with others like it for its lock: the script serves these in their order. */
  readonly sharesLock?: boolean;
  /** A local instant not later than its sending; undefined when nothing is counted from it. */
  readonly askedAt: number | undefined;
  /** How long its answer is waited for, in ms; by default as long as that of any command. */
  readonly timeoutMs?: number | undefined;
  addTo(keys: string[], args: ScriptArgument[]): void;
  /** Called with its part of the reply. When it throws, {@link failed} is called with the error. */
  answered(reply: ScriptReply, sentAt: number): void;
  failed(error: LockStoreError): void;
}

/** Sends the bundles of several connections at the end of this turn of the event loop, with a single callback for all of them. */
export class TurnEnd {
  private waiting: (() => void)[] = [];

  add(leave: () => void): void {
    this.waiting.push(leave);
    if (this.waiting.length === 1) process.nextTick(this.come);
  }

  private readonly come = (): void => {
    const { waiting } = this;
    this.waiting = [];
    for (const leave of waiting) leave();
  };
}

export class Bundles {
  private readonly open: Bundle[] = [];
  private willFlush = false;
  /**
   * Whether the last request met no other on its way. Then the next one leaves at once, which spares a caller that is alone a
   * tenth of the CPU of its call. Among several callers it would cost a command that the others do not share.
   */
  private isSolitary = true;

  constructor(
    private readonly runner: ScriptRunner,
    /** Shared by connections whose requests are made together. */
    private readonly turnEnd = new TurnEnd(),
  ) {}

  /** Requests for one script with the same `source` may share a command. */
  add(script: LuaScript, source: number, request: BundledRequest): void {
    const { open, runner } = this;
    if (runner.underway.length > 0 || open.length > 0) this.isSolitary = false;
    else if (this.isSolitary) return runner.perform(new Bundle(runner, script, source, request), request.askedAt);
    let bundle: Bundle | undefined;
    for (const each of open) {
      // An earlier request for this lock is sent first.
      if (each.mustPrecede(request)) return this.addAfterAll(script, source, request);
      if (each.script === script && each.source === source) bundle = each;
    }
    if (bundle) bundle.join(request);
    else open.push((bundle = new Bundle(runner, script, source, request)));
    if (bundle.requests.length === LARGEST_BUNDLE) {
      open.splice(open.indexOf(bundle), 1);
      bundle.leave();
    } else if (!this.willFlush) {
      this.willFlush = true;
      this.turnEnd.add(this.flush);
    }
  }

  /** Calls `done` when every request that was added until now has been written to its socket. */
  whenSent(done: () => void): void {
    if (this.open.length === 0) this.runner.whenWritten(done);
    else this.turnEnd.add(() => this.runner.whenWritten(done));
  }

  /** All requests that are not answered yet, sent or not. */
  *underway(): Iterable<BundledRequest> {
    for (const bundle of this.open) yield* bundle.requests;
    for (const errand of this.runner.underway) if (errand instanceof Bundle) yield* errand.requests;
  }

  private addAfterAll(script: LuaScript, source: number, request: BundledRequest): void {
    this.flush();
    this.add(script, source, request);
  }

  /** What leaves together for one server is one write. */
  private readonly flush = (): void => {
    this.willFlush = false;
    const { open, runner } = this;
    this.isSolitary = runner.underway.length === 0 && open.length === 1 && open[0]!.requests.length === 1;
    const corked = open.length > 1 ? new Set<ServerConnection>() : undefined;
    try {
      for (const bundle of open.splice(0)) bundle.leave(corked);
    } finally {
      corked?.forEach((to) => to.uncork());
    }
  };
}

class Bundle implements Errand {
  sentTo: ServerConnection | undefined = undefined;
  sentAt = 0;
  deadline = 0;
  index = -1;
  readonly connection: Connection;
  readonly timeoutMs: number | undefined;
  readonly redisKeys: string[] = [];
  private readonly args: ScriptArgument[] = [];
  readonly requests: BundledRequest[];

  constructor(
    private readonly runner: ScriptRunner,
    readonly script: LuaScript,
    readonly source: number,
    first: BundledRequest,
  ) {
    this.connection = runner.connection;
    this.timeoutMs = first.timeoutMs;
    this.requests = [first];
    first.addTo(this.redisKeys, this.args);
  }

  get what(): string {
    return this.script.name;
  }

  /** The key of its only request. With several an error of the whole command is about no single lock. */
  get key(): string | undefined {
    return this.requests.length === 1 ? this.requests[0]!.key : undefined;
  }

  /** Whether it has a request for this lock that must be sent in an earlier command. */
  mustPrecede({ lockKey, sharesLock }: BundledRequest): boolean {
    for (const request of this.requests) if (request.lockKey === lockKey && !(sharesLock && request.sharesLock)) return true;
    return false;
  }

  join(request: BundledRequest): void {
    this.requests.push(request);
    request.addTo(this.redisKeys, this.args);
  }

  leave(corked?: Set<ServerConnection>): void {
    this.runner.perform(this, this.requests[0]!.askedAt, corked);
  }

  send(to: Sender, asSource: boolean): Promise<unknown> {
    const { script, redisKeys, args } = this;
    // A single list that is spread at the end is copied once, two lists are copied twice.
    const all = NOTHING.concat(redisKeys, args);
    return asSource ? to.eval(script.source, redisKeys.length, ...all) : to.evalsha(script.sha1, redisKeys.length, ...all);
  }

  answered(reply: unknown): void {
    const { requests, sentAt } = this;
    if (requests.length === 1) return requests[0]!.answered(reply as ScriptReply, sentAt);
    const replies = reply as readonly ScriptReply[];
    requests.forEach((request, n) => this.tell(request, replies[n]!, sentAt));
  }

  failed(error: LockStoreError): void {
    const { requests } = this;
    if (requests.length === 1) return requests[0]!.failed(error);
    // The server answered with an error, so it did not run the script.
    if (isReply(error.cause)) for (const request of requests) this.sendAlone(request);
    else for (const request of requests) request.failed(named(error, request.key));
  }

  private tell(request: BundledRequest, reply: ScriptReply, sentAt: number): void {
    try {
      request.answered(reply, sentAt);
    } catch (error) {
      this.runner.dropIfUnexpected(this, error);
      const redisKeys: string[] = [];
      request.addTo(redisKeys, []);
      request.failed(this.runner.failureOf(error, { what: this.what, key: request.key, redisKeys }));
    }
  }

  private sendAlone(request: BundledRequest): void {
    new Bundle(this.runner, this.script, this.source, request).leave();
  }
}

function named({ message, cause, nodes, retryable }: LockStoreError, key: string): LockStoreError {
  return new LockStoreError(message.replace(/^Locks:/, `Lock '${key}':`), { key, cause, nodes, retryable });
}
