/** Asks a server for something that it must do in time or not at all. */
import type { Clock } from '../../core/port/clock.js';
import { lateError } from '../../core/port/hold-errors.js';
import { LONG_AGO, type ServerClock } from './server-clock.js';

/** What is asked, and the server whose time counts. */
export interface Timed {
  readonly key: string;
  /** The local instant after which the server must not act. */
  readonly notAfter: number;
  readonly clock: Clock;
  readonly serverClock: ServerClock;
  /** The source of the time samples that count for this server (server-clock.ts). */
  readonly source: number;
  /** The name of the server, for messages. */
  readonly node: string;
}

/**
 * Resolves with the answer of `ask`, which gets the limit in server time and has to observe the time of each reply. While the server's
 * time is not known, a first request, which is late by any clock, only learns it. Rejects with LockStoreError when the server was late.
 */
export async function inTime<T extends object | string>(timed: Timed, ask: (limit: number) => Promise<T | 'late'>): Promise<T> {
  const { key, notAfter, clock, serverClock, source, node } = timed;
  const limit = serverClock.before(source, notAfter, clock.now());
  let answer = await ask(limit || LONG_AGO);
  if (answer === 'late' && limit === 0 && clock.now() < notAfter) answer = await ask(serverClock.before(source, notAfter, clock.now()) || LONG_AGO);
  if (answer === 'late') throw lateError(key, node);
  return answer;
}
