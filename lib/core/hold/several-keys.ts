/**
 * Several locks for one caller, all or nothing: taken one after another in one order for everybody, so that nobody waits in a
 * circle. The caller queues only at the first busy key, and the watchdog keeps what it has meanwhile.
 */
import type { LossListener } from '../lease/guarded-lease.js';
import { StoreLease } from '../lease/store-lease.js';
import type { LockLostError } from '../port/errors.js';
import type { LockMode } from '../port/lock-mode.js';
import { offAbort, onAbort } from '../queue/abort-signals.js';
import type { HoldHost } from './hold.js';
import type { Entered } from './hold-part.js';
import type { ShutdownGate } from './shutdown-gate.js';
import type { Wish } from './wish.js';

/** Longest wait for the store when several keys begin together, or are given back: it ends in the background. */
const TOGETHER_WITHIN_MS = 500;
/** A caller is answered no later than a second after its time to wait is over; timers may take a part of that. */
const ANSWERED_WITHIN_MS = 950;

/** What several locks are taken with. */
export interface Gathering {
  readonly host: HoldHost;
  readonly shutdown: ShutdownGate;
  /** Gets one of them. */
  enter(wish: Wish): Promise<Entered>;
}

/** Keys are without duplicates and in order. Rejects with why one of them could not be had. */
export async function enterAll(keys: readonly string[], wish: Wish, { host, shutdown, enter }: Gathering): Promise<Entered[]> {
  const entered: Entered[] = [];
  const stop = new AbortController();
  const { options, insideHold } = wish;
  const { signal } = options;
  const { clock, watchdog } = host;
  const ended = { aborted: () => stop.abort(signal?.reason) };
  const lost = { leaseLost: (error: LockLostError) => stop.abort(error) };
  if (signal) onAbort(signal, ended);
  // A shutdown waits until what it has is given back.
  shutdown.holdBegan();
  try {
    for (const key of keys) {
      const one = await enter(wish.forKey(key, { ...options, signal: stop.signal }, entered));
      entered.push(one);
      leaseOf(one).onLoss(lost);
      if (one instanceof StoreLease) one.gather(clock.now());
    }
    stop.signal.throwIfAborted();
    await together(host, entered, wish.until, (one, done) => {
      if (!(one instanceof StoreLease)) return done();
      one.begin(options, clock.now());
      if (options.renew) done();
      else void watchdog.renewNow(one).then(done);
    });
    stop.signal.throwIfAborted();
    const refusal = shutdown.refusal(keys[0]!, insideHold);
    if (refusal) throw refusal;
    return entered;
  } catch (error) {
    await together(host, entered, wish.until, (one, done) => abandon(one, options.mode, lost, clock.now(), done));
    throw shutdown.refusal(keys[0]!, insideHold) ?? error;
  } finally {
    shutdown.holdEnded();
    if (signal) offAbort(signal, ended);
    for (const one of entered) leaseOf(one).offLoss(lost);
  }
}

function leaseOf(entered: Entered): StoreLease {
  return entered instanceof StoreLease ? entered : entered.lease;
}

/** Gives back what was entered and never held. */
function abandon(entered: Entered, mode: LockMode, follower: LossListener, now: number, done: () => void): void {
  if (entered instanceof StoreLease) return entered.leave(follower, now, true, false, done);
  entered.leaveInside(mode);
  done();
}

/** Acts on all of them at once, and does not wait long for the slowest. `until`: when the caller's time to wait is over. */
function together({ clock }: HoldHost, all: readonly Entered[], until: number, act: (one: Entered, done: () => void) => void): Promise<void> {
  if (all.length === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const leftMs = Math.max(0, until + ANSWERED_WITHIN_MS - clock.now());
    const timer = clock.setTimer(resolve, Math.min(TOGETHER_WITHIN_MS, leftMs));
    let left = all.length;
    const done = (): void => {
      left -= 1;
      if (left > 0) return;
      clock.clearTimer(timer);
      resolve();
    };
    for (const one of all) act(one, done);
  });
}
