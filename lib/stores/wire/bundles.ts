/**
 * Bundles requests for one script that are made in one turn of the event loop into one command, because a process with many callers
 * spends most of its time on commands. A bundle is sent as soon as it is full, and the others at the end of the turn, so that
 * the server works on the first while this process makes the next. The requests for one lock are sent in the order they were made.
 *
 * A bundle that the server refuses as a whole is sent again request by request, which the scripts allow.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { Done, Reply } from '../../core/port/lock-store.js';
import { Command, type ScriptReply, type ScriptRunner } from './script-runner.js';
import type { LuaScript } from './lua.generated.js';
import type { Spot } from './redis-keys.js';
import type { Sender, ServerConnection } from './server-connection.js';
import { isReply } from './store-failure.js';

/** How many requests one command has at most. With more, server and process would wait for each other instead of working side by side. */
const LARGEST_BUNDLE = 8;

/** A request for a script that takes several requests in one call: a command of its own, or a part of one that it shares with others. */
export abstract class BundledRequest<A = never> extends Command {
  abstract readonly script: LuaScript;
  /** Where its lock stands. */
  abstract readonly spot: Spot;
  /** True if it may be in one command with others like it for its lock: the script serves these in their order. */
  declare readonly sharesLock?: boolean;
  /** Is called once with the reply; undefined after that. */
  protected abstract done?: Done<A> | undefined;

  send(to: Sender, byHash: boolean): Promise<unknown> {
    const { script: { sha1, source }, spot: { redisKeys } } = this;
    return to.call(byHash ? 'evalsha' : 'eval', byHash ? sha1 : source, redisKeys.length, ...redisKeys, this.text());
  }

  /** What the script is told, as it stands at the moment of sending. */
  abstract text(): string;
  /** Is called with its reply, or with its part of the reply to a command that it shares. */
  abstract override answered(reply: ScriptReply): void;

  failed(reason: unknown, runner: ScriptRunner): void {
    this.tell(runner.failureOf(reason, { what: this.what, ...this.spot }));
  }

  /** Passes the reply on. What comes after the first, as an answer that is too late, is passed to nobody. */
  protected tell(reply: Reply<A>): void {
    const { done } = this;
    this.done = undefined;
    try {
      done?.(reply);
    } catch (error) {
      // An error of the caller's callback is no failure of the request: Node reports it as an unhandled rejection.
      void Promise.reject(error);
    }
  }
}

/** Resolves or rejects with the reply for which `ask` is given the callback. */
export function promised<A>(ask: (done: Done<A>) => void): Promise<A> {
  return new Promise((resolve, reject) => ask((reply) => (reply instanceof LockStoreError ? reject(reply) : resolve(reply))));
}

export class Bundles {
  private readonly open: Bundle[] = [];
  private willFlush = false;
  /**
   * True if the last request met no other on its way. Then the next one leaves at once, which spares a caller that is alone a
   * tenth of the CPU of its call. Among several callers it would cost a command that the others do not share.
   */
  private isSolitary = true;

  constructor(private readonly runner: ScriptRunner) {}

  /** Requests for one script whose locks are on the same shard may share a command, if they give it the same time. */
  add(request: BundledRequest): void {
    const { open, runner } = this;
    if (runner.underway.length > 0 || open.length > 0) this.isSolitary = false;
    else if (this.isSolitary) return runner.perform(request);
    let bundle: Bundle | undefined;
    for (const each of open) {
      // An earlier request for this lock is sent first.
      if (each.mustPrecede(request)) {
        this.flush();
        return this.add(request);
      }
      if (each.first.script === request.script && each.first.spot.shard === request.spot.shard && each.timeoutMs === request.timeoutMs) bundle = each;
    }
    if (bundle) bundle.requests.push(request);
    else open.push((bundle = new Bundle(runner, request)));
    if (bundle.requests.length === LARGEST_BUNDLE) {
      open.splice(open.indexOf(bundle), 1);
      bundle.flush();
    } else if (!this.willFlush) {
      this.willFlush = true;
      process.nextTick(this.flush);
    }
  }

  /** Calls `done` when every request that was added until now has been written to its socket. */
  whenSent(done: () => void): void {
    if (this.open.length === 0) this.runner.whenWritten(done);
    else process.nextTick(() => this.runner.whenWritten(done));
  }

  /** All requests that are not answered yet, sent or not. */
  *underway(): Iterable<BundledRequest> {
    for (const bundle of this.open) yield* bundle.requests;
    for (const command of this.runner.underway) {
      if (command instanceof BundledRequest) yield command;
      else if (command instanceof Bundle) yield* command.requests;
    }
  }

  /** What leaves together for one server is one write. */
  private readonly flush = (): void => {
    this.willFlush = false;
    const { open, runner } = this;
    this.isSolitary = runner.underway.length === 0 && open.length === 1 && open[0]!.requests.length === 1;
    const corked = open.length > 1 ? new Set<ServerConnection>() : undefined;
    try {
      for (const bundle of open.splice(0)) bundle.flush(corked);
    } finally {
      corked?.forEach((to) => to.uncork());
    }
  };
}

/** Requests that leave together. One that is alone then is a command of its own. */
class Bundle extends Command {
  readonly what = this.first.what;
  readonly redisKey = this.first.redisKey;
  readonly askedAt = this.first.askedAt;
  override readonly timeoutMs = this.first.timeoutMs;
  readonly requests = [this.first];

  constructor(
    private readonly runner: ScriptRunner,
    readonly first: BundledRequest,
  ) {
    super();
  }

  /** True if it has a request for this lock that must be sent in an earlier command. */
  mustPrecede({ redisKey, sharesLock }: BundledRequest): boolean {
    for (const request of this.requests) if (request.redisKey === redisKey && !(sharesLock && request.sharesLock)) return true;
    return false;
  }

  flush(corked?: Set<ServerConnection>): void {
    this.runner.perform(this.requests.length === 1 ? this.first : this, corked);
  }

  send(to: Sender, byHash: boolean): Promise<unknown> {
    const { requests, first: { script: { sha1, source } } } = this;
    const words: string[] = [];
    for (const { spot: { redisKeys } } of requests) words.push(...redisKeys);
    const keys = words.length;
    for (const request of requests) words.push(request.text());
    return to.call(byHash ? 'evalsha' : 'eval', byHash ? sha1 : source, keys, ...words);
  }

  answered(reply: unknown): void {
    const replies = reply as readonly ScriptReply[];
    this.requests.forEach((request, n) => this.tell(request, replies[n]!));
  }

  failed(reason: unknown, runner: ScriptRunner): void {
    for (const request of this.requests) {
      // A server that answered with an error did not run the script.
      if (isReply(reason)) runner.perform(request);
      else request.failed(reason, runner);
    }
  }

  private tell(request: BundledRequest, reply: ScriptReply): void {
    request.sentAt = this.sentAt;
    try {
      request.answered(reply);
    } catch (error) {
      this.runner.dropIfUnexpected(this, error);
      request.failed(error, this.runner);
    }
  }
}
