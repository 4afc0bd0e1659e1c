import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { getEventListeners } from 'node:events';
import http from 'node:http';
import { Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { firstValueFrom, lastValueFrom, NEVER, Observable, of, Subject, take, takeUntil, throwError, timer, toArray } from 'rxjs';
import { Locked, LockKeyError, LockLostError, LockService, LockTimeoutError, LockUsageError } from '../../lib/index.js';
import { LockInterceptor } from '../../lib/nest/lock.interceptor.js';
import { LOCKED_OPTIONS, lockedCall } from '../../lib/nest/locked.decorator.js';
import { startApp, until } from './application.js';

@Injectable()
class Feed {
  bodies = 0;
  source: Observable<unknown> = of(1, 2, 3);

  constructor(readonly locks: LockService) {}

  @Locked('feed:<0>', { returns: 'observable' })
  stream(_id: string): Observable<unknown> {
    this.bodies += 1;
    return this.source;
  }

  @Locked('feed:<0>', { returns: 'observable', onLost: 'ignore' })
  stubborn(_id: string): Observable<unknown> {
    return this.source;
  }

  @Locked('feed:<0>', { returns: 'observable', onBusy: 'skip' })
  skipping(_id: string): Observable<unknown> {
    return this.source;
  }

  @Locked('feed:<0>', { returns: 'observable', onBusy: (id: string) => of(`busy ${id}`) })
  falling(_id: string): Observable<unknown> {
    return this.source;
  }
}

async function start() {
  const app = await startApp({ providers: [Feed] });
  return { feed: app.get(Feed), locks: app.get(LockService) };
}

const streaming = lockedCall({ key: 'k', parameters: 0, list: LOCKED_OPTIONS, keyOf: () => 'k' }, { returns: 'observable' }, 'Feed.read');

describe('a locked Observable', () => {
  it('passes on what its source emits, and its end', async () => {
    const { feed } = await start();
    expect(await lastValueFrom(feed.stream('a').pipe(toArray()))).toEqual([1, 2, 3]);
  });

  it('does nothing before it is subscribed to, and runs its body for each subscription', async () => {
    const { feed, locks } = await start();
    const stream = feed.stream('a');
    expect([feed.bodies, await locks.isLocked('feed:a')]).toEqual([0, false]);
    await Promise.all([lastValueFrom(stream), lastValueFrom(stream)]);
    expect(feed.bodies).toBe(2);
  });

  it('gives each subscription a lease of its own: they follow each other', async () => {
    const { feed } = await start();
    const sources = [new Subject<string>(), new Subject<string>()];
    let next = 0;
    feed.source = new Observable((subscriber) => sources[next++]?.subscribe(subscriber));
    const seen: unknown[] = [];
    const stream = feed.stream('a');
    stream.subscribe((value) => seen.push(value));
    stream.subscribe((value) => seen.push(value));
    await until(() => sources[0]?.observed, 'the first subscription');
    expect(sources[1]?.observed).toBe(false);
    sources[0]?.complete();
    await until(() => sources[1]?.observed, 'the second subscription');
    sources[1]?.next('second');
    expect(seen).toEqual(['second']);
    sources[1]?.complete();
  });

  it.each<[string, (source: Subject<unknown>, leave: () => void) => void]>([
    ['its completion', (source) => source.complete()],
    ['its error', (source) => source.error(new Error('source'))],
    ['unsubscription', (_source, leave) => leave()],
  ])('is locked until %s', async (_name, end) => {
    const { feed, locks } = await start();
    const source = new Subject();
    feed.source = source;
    const reading = feed.stream('a').subscribe({ error: () => undefined });
    await until(() => source.observed, 'the subscription');
    expect(await locks.isLocked('feed:a')).toBe(true);
    end(source, () => reading.unsubscribe());
    await until(async () => !(await locks.isLocked('feed:a')), 'the release');
    expect(source.observed).toBe(false);
  });

  it('ends when its reader leaves while an endless source is still being subscribed to', async () => {
    const { feed, locks } = await start();
    feed.source = new Observable((subscriber) => {
      for (let count = 0; !subscriber.closed; count++) subscriber.next(count);
    });
    expect(await firstValueFrom(feed.stream('a').pipe(take(3), toArray()))).toEqual([0, 1, 2]);
    await until(async () => !(await locks.isLocked('feed:a')), 'the release');
  });

  it('stops waiting as soon as its reader leaves, though the lock stays busy', async () => {
    const { feed, locks } = await start();
    await using _held = await locks.acquire('feed:a');
    const told: string[] = [];
    locks.events.subscribe(({ type }) => told.push(type));
    const reading = feed.stream('a').subscribe();
    await until(() => told.includes('waiting'), 'the wait');
    reading.unsubscribe();
    await until(() => told.includes('cancelled'), 'the end of the wait');
    expect(told).toEqual(['waiting', 'cancelled']);
  });

  it('does not run its body when its reader leaves in the moment of the grant', async () => {
    let bodies = 0;
    const source = () => ((bodies += 1), of(1));
    const withLock = async (_key: unknown, _options: unknown, fn: () => unknown) => {
      await Promise.resolve();
      reading.unsubscribe();
      return fn();
    };
    const locks = { withLock } as unknown as LockService;
    const reading = new LockInterceptor(locks).observed({ call: streaming, args: [], work: source }).subscribe();
    await new Promise(setImmediate);
    expect(bodies).toBe(0);
  });

  it('leaves no listener at the signal of its lease, which may be that of a longer hold around it', async () => {
    const { signal } = new AbortController();
    const locks = { withLock: async (_key: unknown, _options: unknown, fn: (lease: object) => unknown) => fn({ signal }) } as unknown as LockService;
    const interceptor = new LockInterceptor(locks);
    const read = (work: () => unknown) => interceptor.observed({ call: streaming, args: [], work });
    expect(await lastValueFrom(read(() => NEVER).pipe(takeUntil(timer(1))), { defaultValue: 'left' })).toBe('left');
    await new Promise(setImmediate);
    expect(await lastValueFrom(read(() => of(getEventListeners(signal, 'abort').length)))).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends with the loss when its lease is lost', async () => {
    const { feed, locks } = await start();
    const source = new Subject();
    feed.source = source;
    const ended = expect(lastValueFrom(feed.stream('a'))).rejects.toBeInstanceOf(LockLostError);
    await until(() => source.observed, 'the subscription');
    await locks.forceRelease('feed:a');
    await ended;
    expect(source.observed).toBe(false);
  });

  it(`goes on after a loss with onLost: 'ignore'`, async () => {
    const { feed, locks } = await start();
    const source = new Subject();
    feed.source = source;
    const result = lastValueFrom(feed.stubborn('a'));
    await until(() => source.observed, 'the subscription');
    await locks.forceRelease('feed:a');
    source.next('late');
    source.complete();
    expect(await result).toBe('late');
  });

  it('completes empty, or gives the fallback, when the lock is busy and the options say so', async () => {
    const { feed, locks } = await start();
    await using _held = await locks.acquire('feed:a');
    expect(await lastValueFrom(feed.skipping('a').pipe(toArray()))).toEqual([]);
    expect(await lastValueFrom(feed.falling('a').pipe(toArray()))).toEqual(['busy a']);
  });
});

describe('a method that gives what its option does not say', () => {
  @Injectable()
  class Wrong {
    give: unknown;

    @Locked('wrong')
    async promise(): Promise<unknown> {
      return this.give;
    }

    @Locked('wrong')
    direct(): Promise<unknown> {
      return this.give as Promise<unknown>;
    }

    @Locked('wrong', { returns: 'observable' })
    stream(): Observable<unknown> {
      return this.give as Observable<unknown>;
    }
  }

  it.each<[string, () => unknown]>([
    ['an Observable', () => of(1)],
    ['a Node stream', () => Readable.from([1])],
    ['a web stream', () => new ReadableStream()],
    ['a generator', () => (async function* () {})()],
    ['what React renders to', () => ({ pipe: () => undefined, abort: () => undefined })],
    ['a stream of the first kind, to which can be written as well', () => ({ on: () => undefined, pipe: () => undefined, write: () => true, readable: true })],
    ['an Observable of an rxjs without pipe', () => ({ lift: () => undefined, subscribe: () => undefined })],
  ])('rejects when it gives %s, naming method and option', async (_name, make) => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    for (const call of [() => wrong.promise(), () => wrong.direct()]) {
      wrong.give = make();
      const refused = call();
      await expect(refused).rejects.toBeInstanceOf(LockUsageError);
      await expect(refused).rejects.toThrow(/Wrong\.(promise|direct) .*returns: 'observable'/s);
    }
  });

  it('may give the response that it has written, as handlers with @Res() do', async () => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    const response = new http.ServerResponse(new http.IncomingMessage(new Socket()));
    wrong.give = Promise.resolve(response);
    expect(await wrong.direct()).toBe(response);
    wrong.give = new PassThrough();
    await expect(wrong.promise()).rejects.toThrow(/gave a stream/);
  });

  it.each<unknown>([{ id: 7, pipe: 'copper' }, { getStream: true }, { then: 'later' }, null, undefined, 'a text'])('may give data with fields that are named as in a stream: %j', async (data) => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    wrong.give = data;
    expect(await wrong.promise()).toBe(data);
  });

  it.each([[7, 'number'], [null, 'object'], [undefined, 'undefined'], [{ then: 'later' }, 'object']])('rejects when it gives no Promise at all, but %p', async (given, kind) => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    wrong.give = given;
    await expect(wrong.direct()).rejects.toThrow(new LockUsageError(`Wrong.direct is locked and ran, but returned ${kind} instead of a Promise. Make it async.`));
  });

  it('fails when it gives no Observable although it says so', async () => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    wrong.give = Promise.resolve(1);
    await expect(lastValueFrom(wrong.stream())).rejects.toThrow(/Wrong\.stream has the option returns: 'observable'/);
  });

  it('accepts any promise-like value, and starts it once', async () => {
    const wrong = (await startApp({ providers: [Wrong] })).get(Wrong);
    let started = 0;
    wrong.give = {
      then: (resolve: (value: string) => void) => {
        started += 1;
        resolve('lazy');
      },
    };
    expect([await wrong.direct(), started]).toEqual(['lazy', 1]);
  });
});

describe('a busy Observable', () => {
  it('is one whose own lock is busy: when its source fails for another lock, that is its error', async () => {
    const { feed } = await start();
    feed.source = throwError(() => new LockTimeoutError('another lock is busy', { key: 'other', waitMs: 0 }));
    for (const stream of [feed.skipping('a'), feed.falling('a')]) {
      await expect(lastValueFrom(stream, { defaultValue: 'nothing' })).rejects.toThrow('another lock is busy');
    }
  });

  it('is not one that has no key', async () => {
    const { feed } = await start();
    for (const stream of [feed.skipping(undefined as never), feed.falling(undefined as never)]) {
      await expect(lastValueFrom(stream, { defaultValue: 'nothing' })).rejects.toBeInstanceOf(LockKeyError);
    }
  });
});
