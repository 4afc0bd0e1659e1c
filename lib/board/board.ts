/**
 * The board of one application: it looks at all locks again and again for those who view it. All viewers share one look at a time, and
 * without viewers there are no looks.
 */
import { defer, EMPTY, finalize, Observable, ReplaySubject, share, Subject, takeUntil, timer } from 'rxjs';
import { pause, systemClock, type Timer } from '../core/port/clock.js';
import { LockUsageError } from '../core/port/errors.js';
import type { InstanceView, WatchedLocks } from './watched-locks.js';

/**
 * The rest between two looks is at least REST_MS, and REST_FACTOR times as long as the last look took: so a store with many locks
 * spends little of its time on the board.
 */
const REST_MS = 400;
const REST_FACTOR = 4;
const MAX_ROWS = 500;
/** A view ends after this time, in ms. The page then connects again, so that the guards decide anew. */
const LONGEST_VIEW_MS = 120_000;
/** How long closing waits after it has ended the views, in ms, so that the server finds their connections idle and can close them. */
const GOODBYE_MS = 50;

/** The result of one look, as the page gets it. */
export interface BoardView {
  /** When the look began, in ms of this process's wall clock. */
  readonly at: number;
  readonly instances: readonly InstanceView[];
}

export class Board {
  /** The lock modules that it shows; none until the application has made them. */
  private watched: readonly WatchedLocks[] = [];
  private readonly end = new Subject<void>();
  private closed = false;
  private viewers = 0;
  private readonly looks: Observable<string>;

  constructor() {
    const shared = { connector: () => new ReplaySubject<string>(1), resetOnRefCountZero: true };
    this.looks = new Observable<string>((viewers) => this.lookAgain((view) => viewers.next(view))).pipe(share(shared));
  }

  open(watched: readonly WatchedLocks[]): void {
    this.watched = watched;
  }

  /** The locks of one lock module. @throws LockUsageError when the board does not show this instance */
  of(instance: string): WatchedLocks {
    const found = this.watched.find(({ name }) => name === instance);
    if (found) return found;
    throw new LockUsageError(`The board shows no lock module '${instance}'.`);
  }

  /** The results of the looks as JSON, made once for all viewers. It completes after {@link LONGEST_VIEW_MS}, or when the board closes. */
  view(): Observable<string> {
    if (this.watched.length === 0) throw new LockUsageError('The lock board was asked before the application was initialized.');
    return defer(() => {
      if (this.closed) return EMPTY;
      this.viewers += 1;
      return this.looks.pipe(takeUntil(this.end), takeUntil(timer(LONGEST_VIEW_MS)), finalize(() => (this.viewers -= 1)));
    });
  }

  /** Ends all views, because open ones would keep the server from closing. */
  async close(): Promise<void> {
    for (const locks of this.watched) locks.stop();
    this.closed = true;
    if (this.viewers === 0) return;
    this.end.next();
    await pause(systemClock, GOODBYE_MS);
  }

  private lookAgain(show: (view: string) => void): () => void {
    let stopped = false;
    let rest: Timer | undefined;
    const look = async (): Promise<void> => {
      const startedAt = systemClock.now();
      const view: BoardView = { at: systemClock.wallNow(), instances: await this.everyInstance() };
      if (stopped) return;
      show(JSON.stringify(view));
      rest = systemClock.setTimer(() => void look(), Math.max(REST_MS, REST_FACTOR * (systemClock.now() - startedAt)));
    };
    void look();
    return () => {
      stopped = true;
      systemClock.clearTimer(rest);
    };
  }

  private everyInstance(): Promise<InstanceView[]> {
    const mostRows = Math.ceil(MAX_ROWS / this.watched.length);
    return Promise.all(this.watched.map((locks) => locks.view(mostRows)));
  }
}
