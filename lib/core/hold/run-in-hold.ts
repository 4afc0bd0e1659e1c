/** Runs the work of withLock inside its hold, ends the hold, and settles the call with the work's result, or with LockLostError. */
import { LockLostError, messageOf, type WorkOutcome } from '../port/errors.js';
import type { Hold } from './hold.js';
import { isObservable, observableError, type Work } from './work.js';

export function runInHold<T>(
  hold: Hold,
  fn: Work<T>,
  resolve: (value: T) => void,
  reject: (reason: unknown) => void,
): void {
  const settle = (loss: LockLostError | undefined, work: WorkOutcome): void => {
    if (loss && hold.options.onLost === 'throw') reject(withOutcome(loss, work));
    else if (work.status === 'rejected') reject(work.reason);
    else if (isObservable(work.value)) reject(observableError(hold.key));
    else resolve(work.value as T);
  };
  const ended = (work: WorkOutcome): void => {
    const now = hold.host.clock.now();
    const loss = hold.lossNow(now);
    // Nested calls that outlive the work keep the lease, and the caller does not wait for them.
    if (hold.hasNestedCalls) {
      hold.end(now, () => {});
      settle(loss, work);
    } else hold.end(now, (outcome) => settle(outcome === 'lost' ? hold.lossNow() : loss, work));
  };
  const failed = (reason: unknown): void => ended({ status: 'rejected', reason });
  try {
    const given: unknown = hold.runInside(fn);
    // What is no promise of Node's may begin its work only when it is awaited (a query of Mongoose does): so that happens inside.
    const work = isPlainPromise(given) ? given : hold.runInside(() => Promise.resolve(given));
    work.then((value) => ended({ status: 'fulfilled', value }), failed);
  } catch (reason) {
    failed(reason);
  }
}

function isPlainPromise(given: unknown): given is Promise<unknown> {
  try {
    return given instanceof Promise && given.constructor === Promise;
  } catch {
    // A Proxy that lets nobody look at it.
    return false;
  }
}

function withOutcome(loss: LockLostError, outcome: WorkOutcome): LockLostError {
  // The work itself failed with the loss, as it does after assertHeld(), so there is nothing to add.
  if (outcome.status === 'rejected' && outcome.reason === loss) return loss;
  const ended = outcome.status === 'fulfilled' ? 'The work finished anyway' : `The work failed as well: ${messageOf(outcome.reason)}`.replace(/\.$/, '');
  const cause = outcome.status === 'rejected' ? outcome.reason : loss.cause;
  return new LockLostError(`${loss.message} ${ended}.`, { key: loss.key, cause, outcome });
}
