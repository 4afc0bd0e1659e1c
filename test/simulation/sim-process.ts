/**
 * A simulated process: a clock of its own that drifts, and an event loop that can be stopped. While it is stopped its clock
 * goes on; what was due or arrived meanwhile happens late, at the next turn. While its machine sleeps the clock and its timers stand
 * still too, but not the time since boot.
 *
 *     running ──▶ paused, or asleep ──▶ running …
 *        └───────────┴─────▶ dead        nothing of it happens any more; what it sent is still on its way
 */
import type { Clock, Timer } from '../../lib/core/port/clock.js';
import type { Random } from './random.js';
import type { Happening, VirtualTime } from './virtual-time.js';

interface Late {
  readonly run: () => void;
  readonly timer: boolean;
}

/** A timer of a process. */
interface ProcessTimer {
  happening: Happening | undefined;
}

export class SimProcess {
  state: 'running' | 'paused' | 'dead' = 'running';
  /** Timers that are set and have not fired. */
  readonly timers = new Set<ProcessTimer>();
  readonly clock: Clock;
  /** Since when it runs, or is paused. */
  changedAt = 0;
  /** All the time it stood still so far. */
  private pausedMs = 0;
  /** Whether its machine slept, ever. */
  hasSlept = false;
  private asleepSince: number | undefined;
  private sleptMs = 0;
  private readonly late: Late[] = [];
  private readonly startAt: number;
  private wallStepMs = 0;
  private readonly bootedMs: number;

  constructor(
    readonly name: string,
    readonly time: VirtualTime,
    private readonly random: Random,
    /** How much faster than the world its clock goes; 0.001 is a thousandth. */
    private readonly drift: number,
  ) {
    this.startAt = random.between(1_000, 100_000);
    this.bootedMs = random.between(0, 1e9);
    // A machine that sleeps reads no clock. A judge that looks at a lease there meanwhile sees the instant at which it fell asleep.
    const awake = (): number => this.asleepSince ?? time.now;
    this.clock = {
      now: () => this.startAt + (awake() - this.sleptMs) * (1 + drift),
      wallNow: () => 1_790_000_000_000 + this.wallStepMs + awake() * (1 + drift),
      uptimeMs: () => this.bootedMs + this.startAt + awake() * (1 + drift),
      setTimer: (callback, delayMs) => this.setTimer(callback, delayMs),
      clearTimer: (timer) => {
        this.timers.delete(timer as ProcessTimer);
        (timer as ProcessTimer | undefined)?.happening?.cancel();
      },
      nextTurn: (callback) => void time.after(0, () => this.deliver(callback)),
      keepAlive: () => () => {},
    };
  }

  get alive(): boolean {
    return this.state !== 'dead';
  }

  /** The world's instant of an instant on this process's clock. */
  worldInstant(local: number): number {
    return (local - this.startAt) / (1 + this.drift) + this.sleptMs;
  }

  /** How long it has stood still, a stop that goes on included: a judge that looks at a lease of a process that stands still may end one of its calls. */
  get stoodStillMs(): number {
    return this.pausedMs + (this.state === 'paused' ? this.time.now - this.changedAt : 0);
  }

  /** Something reaches the process: at once, or when it runs again. */
  deliver(run: () => void, timer = false): void {
    if (this.state === 'running') run();
    else if (this.state === 'paused') this.late.push({ run, timer });
  }

  pause(): void {
    if (this.state !== 'running') return;
    this.state = 'paused';
    this.changedAt = this.time.now;
  }

  resume(): void {
    if (this.state !== 'paused') return;
    this.state = 'running';
    this.pausedMs += this.time.now - this.changedAt;
    this.changedAt = this.time.now;
    const late = this.late.splice(0);
    // Where the event loop stood when it was stopped decides whether timers or sockets come first.
    const timersFirst = this.random.chance(0.5);
    const ordered = timersFirst ? [...late.filter(({ timer }) => timer), ...late.filter(({ timer }) => !timer)] : late;
    for (const { run } of ordered) this.time.after(0, () => this.deliver(run));
  }

  /** Its machine sleeps. */
  sleep(): void {
    if (this.state !== 'running') return;
    this.pause();
    this.asleepSince = this.time.now;
    this.hasSlept = true;
  }

  wake(): void {
    if (this.asleepSince === undefined) return;
    this.sleptMs += this.time.now - this.asleepSince;
    this.asleepSince = undefined;
    this.resume();
  }

  get isAsleep(): boolean {
    return this.asleepSince !== undefined;
  }

  crash(): void {
    this.state = 'dead';
    this.late.length = 0;
    for (const timer of this.timers) timer.happening?.cancel();
    this.timers.clear();
  }

  stepWall(ms: number): void {
    this.wallStepMs += ms;
  }

  private setTimer(callback: () => void, delayMs: number): Timer {
    // As Node does, a timer fires a little late and never early.
    const inMs = Math.max(0, delayMs) / (1 + this.drift) + this.random.between(0.001, 1);
    const timer: ProcessTimer = { happening: undefined };
    const arm = (forMs: number): void => {
      const [sleptMs, dueAt] = [this.sleptMs, this.time.now + forMs];
      const fire = (): void => {
        // While the machine slept the timer stood still.
        const leftMs = dueAt + this.sleptMs - sleptMs - this.time.now;
        if (leftMs > 0 && this.timers.has(timer)) arm(leftMs);
        else if (this.timers.delete(timer)) callback();
      };
      timer.happening = this.time.after(forMs, () => this.deliver(fire, true));
    };
    arm(inMs);
    this.timers.add(timer);
    return timer;
  }
}
