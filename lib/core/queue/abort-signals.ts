/**
 * Listens to the AbortSignals of callers. Many calls may share one signal, so each signal gets a single event listener from here:
 * Node warns of a leak when it gets more than ten.
 *
 * A signal may be of another library's making, and whatever it does must not keep a lock taken. So it is asked only here: one that
 * cannot be asked or listened to counts as aborted, with what it threw as its reason.
 */
import { seen } from '../port/errors.js';
import type { AbortSignalLike } from '../port/lock-options.js';

export interface AbortListener {
  aborted(): void;
}

/** The reasons of signals that have aborted: each is read once, because a getter may make a new one whenever it is read. */
const reasons = new WeakMap<AbortSignalLike, { readonly reason: unknown }>();

class Watch {
  readonly listeners = new Set<AbortListener>();

  constructor(signal: AbortSignalLike) {
    try {
      signal.addEventListener('abort', this.abort);
    } catch (reason) {
      reasons.set(signal, { reason });
    }
  }

  /** The signal calls this when it aborts. It is a function, because not every signal takes an object. */
  readonly abort = (): void => {
    for (const listener of this.listeners) listener.aborted();
  };
}

const watches = new WeakMap<AbortSignalLike, Watch>();

/** Calls `listener` when the signal aborts; at once when it has aborted before. */
export function onAbort(signal: AbortSignalLike, listener: AbortListener): void {
  let watch = watches.get(signal);
  if (!watch && !hasAborted(signal)) watches.set(signal, (watch = new Watch(signal)));
  if (hasAborted(signal)) return listener.aborted();
  watch!.listeners.add(listener);
}

export function offAbort(signal: AbortSignalLike, listener: AbortListener): void {
  const watch = watches.get(signal);
  if (!watch?.listeners.delete(listener) || watch.listeners.size > 0) return;
  const isForgotten = seen(() => {
    signal.removeEventListener('abort', watch.abort);
    return true;
  }, false);
  if (isForgotten) watches.delete(signal);
}

function hasAborted(signal: AbortSignalLike): boolean {
  return reasons.has(signal) || seen(() => signal.aborted, true);
}

/** Why a signal has aborted; never undefined, by which a caller is told that its time is over. */
export function reasonOf(signal: AbortSignalLike): unknown {
  let known = reasons.get(signal);
  if (!known) reasons.set(signal, (known = { reason: reasonNow(signal) }));
  return known.reason;
}

function reasonNow(signal: AbortSignalLike): unknown {
  let reason: unknown;
  try {
    reason = signal.reason;
  } catch (thrown) {
    reason = thrown;
  }
  return reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
}

export function throwIfAborted(signal: AbortSignalLike | undefined): void {
  if (signal && hasAborted(signal)) throw reasonOf(signal);
}

/** True if the signal ended the call that rejects with this reason. The reason itself does not tell: it may be the LockTimeoutError of another call. */
export function endedBy(signal: AbortSignalLike | undefined, reason: unknown): boolean {
  return signal !== undefined && hasAborted(signal) && reasonOf(signal) === reason;
}

/**
 * Aborts `target` with the reason of `source`, now if that has aborted, else when it does, until the returned function is called.
 * Unlike AbortSignal.any it leaves nothing behind at a source that outlives a million targets.
 */
export function abortWith(source: AbortSignalLike, target: AbortController): () => void {
  const listener: AbortListener = { aborted: () => target.abort(reasonOf(source)) };
  onAbort(source, listener);
  return () => offAbort(source, listener);
}
