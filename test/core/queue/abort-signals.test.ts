import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { abortWith, offAbort, onAbort } from '../../../lib/core/queue/abort-signals.js';

const listeners = ({ signal }: AbortController): number => getEventListeners(signal, 'abort').length;

describe('A signal that many calls share', () => {
  it('gets one event listener, and none once all calls have ended', () => {
    const stop = new AbortController();
    const told: number[] = [];
    const calls = [0, 1, 2].map((n) => ({ aborted: () => void told.push(n) }));
    for (const call of calls) onAbort(stop.signal, call);
    expect(listeners(stop)).toBe(1);
    offAbort(stop.signal, calls[1]!);
    // It does not listen any more: nothing of the others ends with it.
    offAbort(stop.signal, calls[1]!);
    expect(listeners(stop)).toBe(1);
    stop.abort();
    expect(told).toEqual([0, 2]);
    for (const n of [0, 2]) offAbort(stop.signal, calls[n]!);
    expect(listeners(stop)).toBe(0);
  });

  it('is listened to anew by a call that comes after all others have ended', () => {
    const stop = new AbortController();
    let told = 0;
    const call = { aborted: () => void (told += 1) };
    onAbort(stop.signal, call);
    offAbort(stop.signal, call);
    onAbort(stop.signal, call);
    expect(listeners(stop)).toBe(1);
    stop.abort();
    expect(told).toBe(1);
  });

  it('aborts another with its reason, at once when it has aborted, and not after that was ended', () => {
    const [source, aborted, ended, late] = [1, 2, 3, 4].map(() => new AbortController());
    abortWith(source!.signal, aborted!);
    abortWith(source!.signal, ended!)();
    expect(aborted!.signal.aborted).toBe(false);
    source!.abort('why');
    abortWith(source!.signal, late!);
    expect([aborted, ended, late].map((each) => each!.signal.reason as unknown)).toEqual(['why', undefined, 'why']);
  });
});
