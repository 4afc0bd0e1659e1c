/**
 * The shutdown of a LockService. It refuses new calls, cancels calls that wait, and waits for running holds. Holds that do not end
 * in time are declared lost, so that their signals abort, but their locks are not released while their work goes on.
 */
import { Alarm } from '../lease/schedule.js';
import { LockClosedError } from '../port/errors.js';
import type { LockCore } from './lock-core.js';

export class ShutdownGate {
  /** The holds that have begun and were neither released nor lost. Whoever begins one counts it here, and {@link holdEnded} counts it off. */
  holds = 0;
  /** When holds are declared lost, in clock.now() time; undefined before the shutdown is announced. */
  private graceEndsAt: number | undefined;
  private letProcessEnd: () => void = () => {};
  /** Which calls are still served. A call inside a hold is longest, because the hold may need it to end. Only this class writes it. */
  serves: 'all' | 'inside holds' | 'none' = 'all';
  private readonly graceOver = new Alarm(() => this.endTheRest());
  private readonly whenAllEnded: (() => void)[] = [];

  constructor(private readonly core: LockCore) {}

  /** The error of a call that is refused; undefined when it is served. */
  refusal(key: string, insideHold: boolean): LockClosedError | undefined {
    return this.serves === 'all' || (this.serves === 'inside holds' && insideHold) ? undefined : closedError(key);
  }

  /** Notes that a hold was released or lost: the shutdown does not wait for it any more. */
  holdEnded(): void {
    this.holds -= 1;
    while (this.holds === 0 && this.whenAllEnded.length > 0) this.whenAllEnded.shift()!();
  }

  /**
   * From now on the grace counts. Calls are served until {@link begin}, because other parts of the application may need locks to end; but
   * what they wait for may end only when the signal of its hold aborts.
   */
  announce(): void {
    if (this.graceEndsAt !== undefined) return;
    this.graceEndsAt = this.core.clock.now() + this.core.defaults.shutdownGraceMs;
    this.core.schedule.set(this.graceOver, this.graceEndsAt);
    this.letProcessEnd = this.core.clock.keepAlive();
  }

  /** Begins the shutdown: calls that wait and new calls are rejected, except those inside a hold. */
  begin(): void {
    if (this.serves !== 'all') return;
    this.serves = 'inside holds';
    this.core.queues.rejectWaiting((key, insideHold) => this.refusal(key, insideHold));
  }

  /** Resolves when all holds have ended, or after so long: by default when the grace is over. Undefined when there are none. */
  holdsEnded(withinMs = this.graceEndsAt! - this.core.clock.now()): Promise<void> | undefined {
    return this.holds > 0 ? this.core.schedule.within<void>(withinMs, undefined, (done) => this.whenAllEnded.push(done)) : undefined;
  }

  /** Resolves when all holds have ended or the grace is over. Releases that are on their way then get commandTimeoutMs more to be answered. */
  async finish(): Promise<void> {
    const { queues: { background }, schedule, defaults: { commandTimeoutMs } } = this.core;
    const ended = this.holdsEnded();
    if (ended) await ended;
    schedule.cancel(this.graceOver);
    this.endTheRest();
    // A call that waited for the last of its locks gives back the others only when it is rejected.
    const answered = Promise.resolve(this.holdsEnded(commandTimeoutMs)).then(() => background.settled());
    await schedule.within<void>(commandTimeoutMs, undefined, (done) => void answered.then(() => done()));
    background.close();
    schedule.close();
  }

  private endTheRest(): void {
    this.letProcessEnd();
    // Before the shutdown begins, calls that come later are served: other parts of the application still need them to end.
    if (this.serves !== 'all') this.serves = 'none';
    this.core.queues.rejectWaiting(closedError);
    const { shutdownGraceMs } = this.core.defaults;
    this.core.watchdog.loseAll(`the module was shut down and the work went on for longer than shutdownGraceMs (${shutdownGraceMs} ms)`);
    this.core.announcer.shutdownLost(shutdownGraceMs);
  }
}

function closedError(key: string): LockClosedError {
  const message = `Lock '${key}' was not taken: the lock module is shutting down. Nothing is held; try again on another instance.`;
  return new LockClosedError(message, { key });
}
