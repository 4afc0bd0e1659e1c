/** The work that a call runs inside its hold, and how it stands among the call's arguments. */
import { LockLostError, LockUsageError, messageOf, seen, type WorkOutcome } from '../port/errors.js';
import type { Lease } from '../port/lease.js';
import type { Hold } from './hold.js';

/**
 * How many releases may be on their way whose calls have their results already (`awaitRelease: false`). Further calls wait for the answer,
 * so that a loop over many keys is no faster than the store, and its memory does not grow.
 */
export const MAX_UNANSWERED_RELEASES = 1_000;

export type Work<T> = (lease: Lease) => Promise<T> | T;

/** The work of a call of `withLock`, which is the last argument: the second, or behind options the third. `call` begins messages. @throws LockUsageError */
export function workOf<T>(second: object | Work<T> | undefined, third: Work<T> | undefined, call = 'withLock(key'): Work<T> {
  if (typeof second === 'function') {
    if (third === undefined) return second as Work<T>;
    throw new LockUsageError(`${call}, options, fn): options stand before fn; behind it nobody would read them.`);
  }
  if (typeof third === 'function') return third;
  throw new LockUsageError(`${call}, options?, fn): fn must be a function.`);
}

/** True if work gave an Observable, as an HttpService of Nest does, or a generator: what it stands for begins when it is read, and so without the lock. */
function isUnbegun(given: object): boolean {
  return seen(() => ('subscribe' in given && 'pipe' in given) || Object.prototype.toString.call(given).endsWith('Generator]'), false);
}

function unbegunError(key: string): LockUsageError {
  return new LockUsageError(
    `Lock '${key}': the function gave an Observable or a generator, which nobody has read under the lock. Await its values inside: ` +
      `await firstValueFrom(observable). A method that is to return an Observable needs @Locked(key, { returns: 'observable' }).`,
    { key },
  );
}

/** Runs the work of withLock inside its hold, ends the hold, and settles the call with the work's result, or with LockLostError. */
export function runInHold<T>(
  hold: Hold,
  fn: Work<T>,
  resolve: (value: T) => void,
  reject: (reason: unknown) => void,
): void {
  const { core, options } = hold;
  let result: unknown;
  let failure: { readonly reason: unknown } | undefined;
  const settle = (): void => {
    if (hold.loss && options.onLost === 'throw') {
      reject(withOutcome(hold.loss, failure ? { status: 'rejected', ...failure } : { status: 'fulfilled', value: result }));
    } else if (failure) reject(failure.reason);
    else if (result && typeof result === 'object' && isUnbegun(result)) reject(unbegunError(hold.key));
    else resolve(result as T);
  };
  const ended = (value: unknown): void => {
    result = value;
    const now = core.clock.now();
    hold.lossNow(now);
    // Nested calls that outlive the work keep the lease, and the caller does not wait for them.
    if (hold.nestedCalls > 0) {
      hold.end(now, () => {});
      settle();
    } else if (options.awaitRelease || core.unansweredReleases >= MAX_UNANSWERED_RELEASES) hold.end(now, settle);
    else endWhenSent(hold, now, settle);
  };
  const failed = (reason: unknown): void => {
    failure = { reason };
    ended(undefined);
  };
  try {
    core.context.run(hold, beginWork, fn).then(ended, failed);
  } catch (reason) {
    failed(reason);
  }
}

/**
 * Ends the hold, and calls `settle` as soon as its release was sent, or answered if that is earlier. What an answer tells that comes later is
 * told as an event, and a loss in the log.
 */
function endWhenSent(hold: Hold, now: number, settle: () => void): void {
  const { core } = hold;
  let isSettled = false;
  const settleOnce = (): void => {
    if (!isSettled) settle();
    isSettled = true;
  };
  core.unansweredReleases += 1;
  hold.end(now, () => {
    core.unansweredReleases -= 1;
    settleOnce();
  });
  if (isSettled) return;
  if (core.store.whenSent) core.store.whenSent(settleOnce);
  else settleOnce();
}

/** A thenable that is no promise, as a query of Mongoose, may begin its work only when it is awaited. Promise.resolve awaits it inside the hold. */
function beginWork(fn: Work<unknown>, hold: Hold): Promise<unknown> {
  return Promise.resolve(fn(hold));
}

function withOutcome(loss: LockLostError, outcome: WorkOutcome): LockLostError {
  // The work itself failed with the loss, as it does after assertHeld(), so there is nothing to add.
  if (outcome.status === 'rejected' && outcome.reason === loss) return loss;
  const ended = outcome.status === 'fulfilled' ? 'The work finished anyway' : `The work failed as well: ${messageOf(outcome.reason)}`.replace(/\.$/, '');
  const cause = outcome.status === 'rejected' ? outcome.reason : loss.cause;
  return new LockLostError(`${loss.message} ${ended}.`, { key: loss.key, cause, outcome, reason: loss.reason });
}
