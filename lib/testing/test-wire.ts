/**
 * The connection of one application to the store of a test. It fails while the store is down, and tells the TestStore which ids hold
 * locks and which wait.
 */
import type { ListOptions, LockState } from '../core/port/lock-state.js';
import type {
  AcquireOutcome,
  AcquireRequest,
  HolderRef,
  LockStore,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  Wake,
} from '../core/port/lock-store.js';
import type { TestStore } from './test-store.js';
import { endingWith, renewalEndingWith, wholeAnswer, wholeRenewal, wholeState } from './whole-milliseconds.js';

export class TestWire implements LockStore {
  /** The application may be one that asks for replicas of its Redis: whatever number it names counts as acknowledged. */
  readonly capabilities: StoreCapabilities;
  readonly ticketHome: string;
  private stopListening: () => void = () => {};

  constructor(
    private readonly shared: TestStore,
    /** The name of this application, with which its holder ids start. */
    readonly process: string,
  ) {
    this.capabilities = { ...shared.memory.capabilities, replicas: true };
    this.ticketHome = shared.memory.ticketHome;
  }

  async open(): Promise<void> {
    this.shared.assertUp();
  }

  onWake(listener: (wake: Wake) => void): void {
    const mine = `${this.process}.`;
    this.stopListening = this.shared.onWake((wake) => wake.id.startsWith(mine) && listener(wake));
  }

  async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    if (request.takesOver !== undefined) return this.takeOver(request);
    let outcome: AcquireOutcome | undefined;
    try {
      this.shared.assertUp();
      outcome = wholeAnswer(await this.shared.acquire(endingWith(request)));
      return outcome;
    } finally {
      this.shared.asked(request, outcome);
    }
  }

  /** A hand-off or an adoption, which asks again by itself while the store is down. */
  private async takeOver(request: AcquireRequest): Promise<AcquireOutcome> {
    this.shared.assertUpFor(request);
    const outcome = wholeAnswer(await this.shared.acquire(endingWith(request)));
    const end = this.shared.endOfLate(request.replaces!);
    // Of a ticket whose time the test has ended, the store says that it ended just now.
    if (outcome.kind === 'gone' && end !== undefined) return { ...outcome, now: end + 1 };
    if (outcome.kind === 'granted') this.shared.granted(request.id);
    if (request.takesOver !== 'beside' && (outcome.kind === 'granted' || request.takesOver === 'hold')) this.shared.forget(request.replaces!);
    return outcome;
  }

  async renew(request: RenewRequest): Promise<RenewOutcome> {
    const { outage } = this.shared;
    if (outage) return { kind: 'unknown', cause: outage };
    const outcome = await this.shared.memory.renew(renewalEndingWith(request));
    if (outcome.kind === 'lost') this.shared.forget(request.id);
    return wholeRenewal(outcome);
  }

  async release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    this.shared.forget(request.id);
    this.shared.assertUp();
    return this.shared.memory.release(request);
  }

  async downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'> {
    this.shared.assertUp();
    return this.shared.memory.downgrade(holder);
  }

  async inspect(key: string): Promise<LockState> {
    this.shared.assertUp();
    return wholeState(await this.shared.memory.inspect(key));
  }

  async *list(options?: ListOptions): AsyncIterable<LockState> {
    this.shared.assertUp();
    for await (const state of this.shared.memory.list(options)) yield wholeState(state);
  }

  async forceRelease(key: string, fence?: number): Promise<boolean> {
    this.shared.assertUp();
    return this.shared.memory.forceRelease(key, fence);
  }

  async tryOut(): Promise<void> {
    this.shared.assertUp();
  }

  /** Ends the connection. The store stays open for the other applications of the test. */
  async close(): Promise<void> {
    this.stopListening();
    this.shared.forgetProcess(this.process);
  }
}
