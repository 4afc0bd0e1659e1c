/**
 * The end of a service's life: new work is turned away, waiting work is cancelled, running work is waited for, and what
 * does not end in time is told, but never released under its feet.
 */
import type { Clock } from '../port/clock.js';
import { LockClosedError } from '../port/errors.js';
import type { Hold } from './hold.js';
import type { LocalQueue } from '../queue/local-queue.js';
import type { ResolvedDefaults } from '../port/lock-options.js';
import { Alarm } from '../lease/schedule.js';
import type { Watchdog } from '../lease/watchdog.js';

export class ShutdownGate {
  private holds = 0;
  private closing = false;
  private closed = false;
  private graceEndsAt = 0;
  private readonly graceOver = new Alarm(() => this.endTheRest());
  private allEnded: (() => void) | undefined;
  /** While the rest is ended: the holds that are lost by it. */
  private overstaying: Hold[] | undefined;

  constructor(
    private readonly queue: LocalQueue,
    private readonly watchdog: Watchdog,
    private readonly clock: Clock,
    private readonly defaults: ResolvedDefaults,
    /** Told of the holds that went on for longer than the grace. */
    private readonly overstayed: (holds: readonly Hold[]) => void,
  ) {}

  /** Why a request is turned away; one from inside a running hold is not, which may need it to finish. */
  refusal(key: string, insideHold: boolean): LockClosedError | undefined {
    return this.closed || (this.closing && !insideHold) ? closedError(key) : undefined;
  }

  holdBegan(): void {
    this.holds += 1;
    if (this.closing) this.watchdog.schedule.set(this.graceOver, this.graceEndsAt);
  }

  /** It was released, or lost: either way nothing of it is left to protect. */
  holdEnded(): void {
    this.holds -= 1;
    if (this.holds === 0) this.allEnded?.();
  }

  /** True when the loss is told together with those of all who overstayed. */
  holdLost(hold: Hold): boolean {
    this.holdEnded();
    if (this.overstaying && !hold.isNested) this.overstaying.push(hold);
    return this.overstaying !== undefined;
  }

  /**
   * The grace counts from here: a server that drains its requests waits for the handlers, and they may wait for their
   * signals.
   */
  begin(): void {
    if (this.closing) return;
    this.closing = true;
    this.queue.rejectWaiting((key, insideHold) => (insideHold ? undefined : closedError(key)));
    this.graceEndsAt = this.clock.now() + this.defaults.shutdownGraceMs;
    if (this.holds > 0) this.watchdog.schedule.set(this.graceOver, this.graceEndsAt);
  }

  /** Resolves when all holds have ended or the grace is over, and nothing is left to take back. */
  async finish(): Promise<void> {
    this.begin();
    const graceMs = this.graceEndsAt - this.clock.now();
    if (this.holds > 0) await this.within(graceMs, new Promise<void>((resolve) => (this.allEnded = resolve)));
    this.watchdog.schedule.cancel(this.graceOver);
    this.endTheRest();
    await this.within(this.defaults.commandTimeoutMs, this.queue.background.settled());
    this.queue.background.close();
    this.watchdog.schedule.close();
  }

  private endTheRest(): void {
    this.closed = true;
    this.queue.rejectWaiting((key) => closedError(key));
    const { shutdownGraceMs } = this.defaults;
    const overstaying: Hold[] = (this.overstaying = []);
    this.watchdog.loseAll(`the module was shut down and the work went on for longer than shutdownGraceMs (${shutdownGraceMs} ms)`);
    this.overstaying = undefined;
    if (overstaying.length > 0) this.overstayed(overstaying.sort((a, b) => b.heldMs - a.heldMs));
  }

  private within(limitMs: number, done: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const alarm = new Alarm(() => resolve());
      this.watchdog.schedule.set(alarm, this.clock.now() + limitMs);
      void done.then(() => {
        this.watchdog.schedule.cancel(alarm);
        resolve();
      });
    });
  }
}

function closedError(key: string): LockClosedError {
  const message = `Lock '${key}' was not taken: the lock module is shutting down. Nothing is held; try again on another instance.`;
  return new LockClosedError(message, { key });
}
