/** Routes under a lock whose result nobody waits for any more: an interceptor outside of the lock has unsubscribed, as `timeout` does. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Sse, UseInterceptors, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { from, NEVER, Observable, Subject, takeUntil } from 'rxjs';
import request from 'supertest';
import { LockInterceptor, LockModule, LockService } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { Gate, startApp } from './application.js';

/** Gives every request up when the test says so. */
const giveUp = new Subject<void>();

@Injectable()
class Impatient implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(takeUntil(giveUp));
  }
}

/** What the handlers do while the test looks. */
let work: Gate;
let began: string[];
let ended: string[];

async function worked(name: string): Promise<string> {
  began.push(name);
  await work.opened;
  ended.push(name);
  return name;
}

/** Notes when its reader leaves. */
function watched(name: string, first: Observable<string>): Observable<string> {
  return new Observable((reader) => {
    began.push(name);
    const reading = first.subscribe({ next: (value) => reader.next(value) });
    return () => {
      reading.unsubscribe();
      ended.push(name);
    };
  });
}

const LOCKED = LockInterceptor.of('till', { waitMs: 5_000 });

@Controller()
@UseInterceptors(Impatient, LOCKED)
class Till {
  @Get('async')
  async waits(): Promise<string> {
    return worked('async');
  }

  @Get('untyped')
  untyped() {
    return worked('untyped');
  }

  @Get('failing')
  async failing(): Promise<never> {
    await worked('failing');
    throw new Error('no change');
  }

  @Get('late-observable')
  async lateObservable(): Promise<Observable<string>> {
    await worked('late-observable');
    return from(['late']);
  }

  @Get('late-values')
  async lateValues(): Promise<Observable<string>> {
    await worked('late-values');
    return watched('values', from(['one']));
  }

  @Get('observable')
  observable(): Observable<string> {
    return watched('observable', NEVER);
  }

  @Get('values')
  values() {
    return watched('values', from(['one']));
  }

  @Sse('events')
  events() {
    return watched('events', NEVER);
  }

  @Get('last')
  last(): string {
    began.push('last');
    return 'last';
  }
}

async function start() {
  const app = await startApp({ controllers: [Till] }, LockModule.forRoot({ embedded: true }));
  const locks = app.get(LockService);
  const server = app.getHttpServer();
  const ask = (path: string): void => void request(server).get(`/${path}`).then(() => undefined, () => undefined);
  /** Asks, waits until the handler runs, and gives the request up. */
  const askAndGiveUp = async (path: string): Promise<void> => {
    ask(path);
    await eventually(() => expect(began).toEqual([path]));
    giveUp.next();
  };
  return { locks, ask, askAndGiveUp };
}

beforeEach(() => {
  work = new Gate();
  began = [];
  ended = [];
});

describe('A locked route that is given up while its handler runs', () => {
  it.each(['async', 'untyped', 'failing', 'late-observable'])('keeps its lock until the handler has answered (%s)', async (path) => {
    const { locks, ask, askAndGiveUp } = await start();
    await askAndGiveUp(path);
    ask('last');
    expect(await locks.tryAcquire('till')).toBeNull();
    expect(began).toEqual([path]);
    work.release();
    await eventually(() => expect(began).toEqual([path, 'last']));
    expect(ended).toEqual([path]);
    await eventually(async () => expect(await locks.isLocked('till')).toBe(false));
  });

  it('stops a stream that its handler gives after that, at its first value', async () => {
    const { locks, askAndGiveUp } = await start();
    await askAndGiveUp('late-values');
    work.release();
    await eventually(() => expect(ended).toEqual(['late-values', 'values']));
    await eventually(async () => expect(await locks.isLocked('till')).toBe(false));
  });

  it.each(['observable', 'values', 'events'])('gives its lock back at once where the reader ends the work (%s)', async (path) => {
    const { locks, askAndGiveUp } = await start();
    await askAndGiveUp(path);
    expect(ended).toEqual([path]);
    await eventually(async () => expect(await locks.isLocked('till')).toBe(false));
  });

  it('does not run its handler when it still waits for the lock', async () => {
    const { locks, ask } = await start();
    const held = await locks.acquire('till');
    ask('async');
    await eventually(() => expect(locks.currentLease()).toBeUndefined());
    giveUp.next();
    await held.release();
    await eventually(async () => expect(await locks.isLocked('till')).toBe(false));
    expect(began).toEqual([]);
  });
});
