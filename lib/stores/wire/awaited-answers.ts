/**
 * The commands that were sent and not answered yet. Each has a deadline, because a connection that lost its peer neither answers nor
 * fails. A connection from which nothing comes at all is given up, so that a new one is made.
 *
 *     awaited ──▶ answered | refused | given up (its deadline has passed, or its connection is silent)
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { Connection, ConnectionState, Sender } from './connections.js';

/** A connection, with what is known of its silence. */
export interface Line {
  readonly client: Sender;
  readonly connection: Connection;
  readonly state: ConnectionState;
  /** The connection is given up after a silence of this length, in ms. */
  readonly patienceMs: number;
  /** The connection is given up after a silence of this length, in ms, once the deadline of a command has passed in it. */
  readonly hasteMs: number;
  /** Since when it owes an answer and nothing has come from it, also when the deadline of that answer has passed; else undefined. */
  owesSince: number | undefined;
  /** How many of its answers are awaited. */
  out: number;
}

/** A command that was sent. */
export interface Awaited {
  /** Its position in the list of those that are awaited; -1 when it is not in it. Only AwaitedAnswers writes it. */
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
    /** Called with a connection that is to be given up. */
    private readonly silent: (connection: Connection) => void,
    /** Called with a command whose answer is not awaited any more, and the reason. */
    private readonly gaveUp: (awaited: A, reason: Error) => void,
  ) {}

  add(awaited: A): void {
    const { line, sentAt, deadline } = awaited;
    awaited.index = this.out.length;
    this.out.push(awaited);
    line.owesSince ??= sentAt;
    line.out += 1;
    // This is what nextLook() answers, without a call for every command.
    const at = Math.min(deadline, line.owesSince + line.patienceMs);
    if (at < this.timerAt) this.lookAt(at);
  }

  all(): readonly A[] {
    return this.out;
  }

  /** Notes that a command was answered or has failed. Answers come in order, so the silence of its connection counts anew from now. */
  heard(awaited: A): void {
    this.remove(awaited);
    const { line } = awaited;
    line.owesSince = line.out > 0 ? this.clock.now() : undefined;
  }

  /** Fails all commands with `reason`. */
  close(reason: Error): void {
    for (const awaited of this.out.splice(0)) {
      awaited.index = -1;
      this.gaveUp(awaited, reason);
    }
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  /** Removes it from the list. The last one of the list takes its position. */
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
    // The look comes one turn after the timer, so that replies which came while this process was busy or stopped are read first.
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
      this.silent(line.connection);
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
