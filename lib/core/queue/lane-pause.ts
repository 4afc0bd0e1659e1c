/**
 * Lanes with a lease that nobody uses, for as long as none is handed on: until the next turn of the event loop, so that timers and
 * sockets are served too, or until a request has an answer that brings the fences which all of them need.
 */
import type { MachineSleep } from '../lease/machine-sleep.js';
import type { Clock } from '../port/clock.js';
import type { PermitLane } from './permit-lane.js';
import type { StoreRequest } from './store-request.js';

export class LanePause {
  private lanes: PermitLane[] = [];
  private isResting = false;
  private refill: StoreRequest | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly sleep: MachineSleep,
    private readonly serve: (lane: PermitLane, now: number) => void,
  ) {}

  get isOn(): boolean {
    return this.isResting || this.refill !== undefined;
  }

  add(lane: PermitLane): void {
    this.lanes.push(lane);
  }

  untilNextTurn(): void {
    this.isResting = true;
    this.clock.nextTurn(() => {
      this.isResting = false;
      this.goOn();
    });
  }

  untilAnswered(request: StoreRequest): void {
    this.refill = request;
  }

  /** Notes that the request has brought what it will bring for now. */
  answered(request: StoreRequest): void {
    if (request === this.refill) this.refill = undefined;
  }

  /** Serves the lanes, when the pause is over. A lane that is served may begin a new one for those behind it. */
  goOn(): void {
    if (this.isOn || this.lanes.length === 0) return;
    const { lanes } = this;
    this.lanes = [];
    const now = this.clock.now();
    // A machine that has just woken up may get here before its timers fire. The leases that ended while it slept are lost with this look.
    this.sleep.look(now);
    for (const lane of lanes) {
      if (!lane.lease?.isHeld) continue;
      if (this.isOn) this.add(lane);
      else this.serve(lane, now);
    }
  }
}
