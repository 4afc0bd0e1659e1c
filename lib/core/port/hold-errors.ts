/** What can go wrong on the way to a hold and in it, in the words of the one who has to do something about it. */
import { LockLostError, LockStoreError, LockTimeoutError, LockUsageError } from './errors.js';

export function lostError(key: string, reason: string): LockLostError {
  return new LockLostError(
    `Lock '${key}' was lost: ${reason}. Another holder may be at work: stop, and let the fence refuse what was not written yet.`,
    { key },
  );
}

export function renewalError(key: string, cause: LockStoreError): LockStoreError {
  const message = `Lock '${key}' could not be renewed; it is trusted until its present end. ${cause.message}`;
  return new LockStoreError(message, { key, cause, nodes: cause.nodes });
}

export function upgradeError(key: string): LockUsageError {
  return new LockUsageError(
    `Lock '${key}' is held for reading around this call, which asks for writing: it would wait for itself. Take it for writing from the start.`,
    { key },
  );
}

export function siblingBusyError(key: string, waitMs: number): LockTimeoutError {
  return new LockTimeoutError(`Lock '${key}' is in use by another call inside the same hold, in this process. Try again later.`, { key, waitMs });
}

/** `heldHere`: its holder is in this process. */
export function busyError(key: string, waitMs: number, heldHere: boolean): LockTimeoutError {
  const holder = heldHere ? ' Its holder is in this same process: if that is the caller itself, run the inner call inside the hold.' : '';
  const waited = waitMs === 0 ? 'is busy' : `was still busy after ${waitMs} ms`;
  return new LockTimeoutError(`Lock '${key}' ${waited}. Nothing is held; try again later.${holder}`, { key, waitMs });
}

export function ownerUpgradeError(key: string, owner: string | undefined): LockUsageError {
  return new LockUsageError(
    `Lock '${key}': owner '${owner}' holds it for reading and asks for writing, which would wait for itself. Take it for writing from the start.`,
    { key },
  );
}

export function outageError(key: string, waitMs: number, cause: LockStoreError): LockStoreError {
  const message =
    `Lock '${key}' could not be asked for ${within(waitMs)}; nothing was begun, and what may have been granted is taken back. ` +
    `The last try: ${cause.message}`;
  return new LockStoreError(message, { key, cause, nodes: cause.nodes });
}

/**
 * A store that has not answered for the whole wait, or for the longer of these, is silent: that the lock is busy is more
 * than we know then. Within the shorter one silence cannot be told from a slow answer.
 */
const SILENT_MS = { atLeast: 100, atMost: 500 } as const;

/** Timers fire a fraction of a millisecond early at times. */
export function isSilence(forMs: number, waitMs: number): boolean {
  return forMs > Math.max(SILENT_MS.atLeast, Math.min(waitMs, SILENT_MS.atMost)) - 1;
}

export function silenceError(key: string, waitMs: number): LockStoreError {
  const message =
    `Lock '${key}': the store did not answer ${within(waitMs)}. ` +
    'Nothing was begun, and what may have been granted is taken back; it is safe to try again.';
  return new LockStoreError(message, { key });
}

export function slownessError(key: string, leaseMs: number): LockStoreError {
  const message =
    `Lock '${key}': it was granted, but its ${leaseMs} ms were over before the answer was here. ` +
    'It is safe to try again, with a longer lease if this happens often.';
  return new LockStoreError(message, { key });
}

export function asStoreError(error: unknown, key: string): LockStoreError {
  if (error instanceof LockStoreError) return error;
  return new LockStoreError(`Lock '${key}': the store failed: ${String(error)}. This is a defect of the store; please report it.`, {
    key,
    cause: error,
    retryable: false,
  });
}

function within(waitMs: number): string {
  return waitMs === 0 ? 'in time' : `within ${waitMs} ms`;
}
