/**
 * The answers that are still out. Each has a deadline of its own, since a connection that lost its peer answers nothing and
 * says nothing; and a connection from which nothing at all comes is given up, so that the next one is asked in its place.
 *
 *     awaited ──▶ answered | refused | given up (its deadline passed, or its connection fell silent)
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { ConnectionState } from './connection-guards.js';
import type { RedisClient } from './redis-connection.js';

/** One connection. */
export interface Line {
  readonly client: RedisClient;
  readonly connection: ConnectionState;
  /** Given up after so long a silence. */
  readonly patienceMs: number;
  /** Given up after this, when somebody could not wait any longer. */
  readonly hasteMs: number;
  /** Since when it owes an answer while nothing at all has come from it; also one that nobody waits for any more. */
  owesSince: number | undefined;
  /** How many answers are waited for. */
  out: number;
}

export interface Awaited {
  /** Where it stands among those that are out; -1 when it is not one of them any more. Only AwaitedAnswers writes it. */
  index: number;
  readonly line: Line;
  readonly sentAt: number;
  readonly deadline: number;
}

export class AwaitedAnswers<A extends Awaited> {
  private readonly out: A[] = [];
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(
    private readonly clock: Clock,
    /** Told of a connection to give up. */
    private readonly silent: (client: RedisClient) => void,
    /** Told of an answer that nobody waits for any more, and why. */
    private readonly gaveUp: (awaited: A, reason: Error) => void,
  ) {}

  add(awaited: A): void {
    const { line, sentAt, deadline } = awaited;
    awaited.index = this.out.length;
    this.out.push(awaited);
    line.owesSince ??= sentAt;
    line.out += 1;
    // As nextLook() would say; this is on the way of every command.
    const at = Math.min(deadline, line.owesSince + line.patienceMs);
    if (at < this.timerAt) this.lookAt(at);
  }

  all(): readonly A[] {
    return this.out;
  }

  /** Something came, or the connection ended. It answers in order: what was sent later may still have to wait. */
  heard(awaited: A): void {
    this.remove(awaited);
    const { line } = awaited;
    line.owesSince = line.out > 0 ? this.clock.now() : undefined;
  }

  /** Nobody waits for them any more. */
  close(reason: Error): void {
    for (const awaited of this.out.splice(0)) {
      awaited.index = -1;
      this.gaveUp(awaited, reason);
    }
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  /** The last one takes its place. */
  private remove(awaited: A): void {
    if (awaited.index < 0) return;
    const last = this.out.pop()!;
    if (last !== awaited) {
      last.index = awaited.index;
      this.out[last.index] = last;
    }
    awaited.index = -1;
    awaited.line.out -= 1;
  }

  private lookAt(at: number): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timerAt = at;
    // In the turn after, so that replies which came while this process was busy or stopped are read first.
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.look()), at - this.clock.now());
  }

  private look(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    const now = this.clock.now();
    const silent = new Set(this.out.filter((awaited) => isSilent(awaited, now)).map(({ line }) => line));
    let next = Infinity;
    for (const awaited of [...this.out]) {
      if (awaited.deadline > now && !silent.has(awaited.line)) next = Math.min(next, nextLook(awaited));
      else this.giveUp(awaited, now);
    }
    for (const line of silent) {
      line.owesSince = undefined;
      this.silent(line.client);
    }
    if (next < Infinity) this.lookAt(next);
  }

  private giveUp(awaited: A, now: number): void {
    this.remove(awaited);
    this.gaveUp(awaited, new Error(`no answer within ${Math.round(now - awaited.sentAt)} ms`));
  }
}

function nextLook({ deadline, line: { owesSince = Infinity, patienceMs } }: Awaited): number {
  return Math.min(deadline, owesSince + patienceMs);
}

function isSilent({ deadline, line }: Awaited, now: number): boolean {
  const { owesSince = now, hasteMs } = line;
  return now >= silentAt(line) || (now >= deadline && now - owesSince >= hasteMs);
}

function silentAt({ owesSince = Infinity, patienceMs }: Line): number {
  return owesSince + patienceMs;
}
