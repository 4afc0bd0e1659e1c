/**
 * Listens to the AbortSignals of callers. Many calls may share one signal, so each signal gets a single event listener from here:
 * Node warns of a leak when it gets more than ten.
 */
export interface AbortListener {
  aborted(): void;
}

class Watch {
  readonly listeners = new Set<AbortListener>();

  constructor(private readonly signal: AbortSignal) {
    signal.addEventListener('abort', this);
  }

  /** Called by the signal when it aborts. */
  handleEvent(): void {
    for (const listener of this.listeners) listener.aborted();
  }

  end(): void {
    this.signal.removeEventListener('abort', this);
  }
}

const watches = new WeakMap<AbortSignal, Watch>();

/** Calls `listener` when the signal aborts. It is never called for a signal that has aborted before. */
export function onAbort(signal: AbortSignal, listener: AbortListener): void {
  let watch = watches.get(signal);
  if (!watch) watches.set(signal, (watch = new Watch(signal)));
  watch.listeners.add(listener);
}

export function offAbort(signal: AbortSignal, listener: AbortListener): void {
  const watch = watches.get(signal);
  if (!watch?.listeners.delete(listener) || watch.listeners.size > 0) return;
  watches.delete(signal);
  watch.end();
}

/**
 * Aborts `target` with the reason of `source`, now if that has aborted, else when it does, until the returned function is called.
 * Unlike AbortSignal.any it leaves nothing behind at a source that outlives a million targets.
 */
export function abortWith(source: AbortSignal, target: AbortController): () => void {
  const listener: AbortListener = { aborted: () => target.abort(source.reason) };
  if (source.aborted) listener.aborted();
  else onAbort(source, listener);
  return () => offAbort(source, listener);
}
