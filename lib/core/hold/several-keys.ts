/**
 * Takes several locks for one call, all or none. All callers take them one after another in the same order, so they cannot wait for
 * each other in a circle. The call waits only at the first busy key, and the watchdog renews what it has meanwhile.
 */
import type { StoreLease } from '../lease/store-lease.js';
import type { LockLostError } from '../port/errors.js';
import type { Call } from '../queue/call.js';
import { abortWith } from '../queue/abort-signals.js';
import type { LockCore } from './lock-core.js';

/** How long the call waits for the store when all locks are there, or are given back, in ms. The commands go on in the background. */
const TOGETHER_WITHIN_MS = 500;
/** A caller is answered within 1,000 ms after its waitMs is over. 50 ms of that are left for late timers. */
const ANSWERED_WITHIN_MS = 950;

/** Takes the locks in the order of the keys, which are sorted and without duplicates. Rejects with why one of them could not be had. */
export async function takeAll(call: Call, core: LockCore): Promise<readonly StoreLease[]> {
  const taken: StoreLease[] = [];
  call.taken = taken;
  const stop = new AbortController();
  const { keys, options, insideHold } = call;
  const { signal } = options;
  const { clock, watchdog, shutdown } = core;
  const lost = { leaseLost: (error: LockLostError) => stop.abort(error) };
  // What a hold around the call rules out is refused before the call waits for another of its locks.
  if (!call.ticket) for (const key of keys) core.context.find(key)?.assertCovers(key, options);
  const stopListening = signal && abortWith(signal, stop);
  // The call counts as a hold from now on, so that a shutdown waits until its locks are given back.
  shutdown.holds += 1;
  try {
    for (const key of keys) {
      const [lease] = await core.take(call.forKey(key, { ...options, signal: stop.signal }), clock.now());
      taken.push(lease!);
      lease!.onLoss(lost);
      if (!call.reentered?.has(lease!)) lease!.gather(clock.now());
    }
    await together(core, taken, call.until, (lease, done) => {
      if (call.reentered?.has(lease)) return done();
      lease.begin(options, clock.now());
      if (options.renew) done();
      else void watchdog.renewNow(lease, lease.lengthMs).then(done);
    });
    stop.signal.throwIfAborted();
    const refusal = shutdown.refusal(keys[0]!, insideHold);
    if (refusal) throw refusal;
    return taken;
  } catch (error) {
    // The ticket has no more what was taken of it: nobody can adopt the others.
    if (call.ticket && taken.length > 0) core.tickets.giveBack(call.ticket);
    await together(core, taken, call.until, (lease, done) => abandon(call, lease, clock.now(), done));
    throw shutdown.refusal(keys[0]!, insideHold) ?? error;
  } finally {
    shutdown.holdEnded();
    stopListening?.();
    for (const lease of taken) lease.offLoss(lost);
  }
}

/** Calls `act` for all locks at once, and waits at most {@link TOGETHER_WITHIN_MS}. `until`: when the caller's waitMs is over. */
async function together(
  { clock, schedule }: LockCore, all: readonly StoreLease[], until: number, act: (lease: StoreLease, done: () => void) => void,
): Promise<void> {
  const leftMs = Math.max(0, until + ANSWERED_WITHIN_MS - clock.now());
  const acts = Promise.all(all.map((lease) => new Promise<void>((done) => act(lease, done))));
  await schedule.within<void>(Math.min(TOGETHER_WITHIN_MS, leftMs), undefined, (done) => void acts.then(() => done()));
}

/** Gives back a lock under which no work of the call began. */
export function abandon({ reentered, options }: Call, lease: StoreLease, now: number, done: () => void): void {
  const outer = reentered?.get(lease);
  if (!outer) return lease.leave({ leaseLost: () => {}, leaseReleased: done }, now, true);
  outer.ended(options.mode);
  done();
}
