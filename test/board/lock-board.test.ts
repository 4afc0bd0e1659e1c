/** The board in a Nest application: who may see it, what it sends, and what it does not do unless asked. */
import { once } from 'node:events';
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { type CallHandler, type CanActivate, type ExecutionContext, type INestApplication, Logger, Module, type NestInterceptor, type VersioningOptions, VersioningType } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { map, type Observable, of, tap } from 'rxjs';
import type { BoardView } from '../../lib/board/board.js';
import { LockBoardModule, type LockBoardOptions } from '../../lib/board/index.js';
import { LockService } from '../../lib/lock.service.js';
import { LockModule } from '../../lib/nest/lock.module.js';
import { Gate, startAlone, startApp } from '../nest/application.js';
import { eventually } from '../support/eventually.js';
import { within } from '../support/in-time.js';
import { startRedis } from '../support/redis-server.js';
import { type EventReader, readEvents } from './event-reader.js';

const readers: EventReader[] = [];

afterEach(() => {
  for (const reader of readers.splice(0)) reader.close();
  jest.restoreAllMocks();
});

/** Lets in who carries the word. */
class WordGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers['word'] === 'friend';
  }
}

const OWN = { 'x-holdfast-board': 'force-release' };

interface Settings {
  readonly interceptor?: NestInterceptor;
  readonly versioning?: VersioningOptions;
}

async function serve(options: LockBoardOptions = {}, { interceptor, versioning }: Settings = {}): Promise<{ app: INestApplication; url: string; locks: LockService }> {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  const providers = interceptor === undefined ? [] : [{ provide: APP_INTERCEPTOR, useValue: interceptor }];
  const modules = [LockModule.forRoot({ embedded: true }), LockBoardModule.forRoot(options)];
  const app = await startAlone({ imports: modules, providers }, (made) => versioning && made.enableVersioning(versioning));
  await app.listen(0, '127.0.0.1');
  return { app, url: `${await app.getUrl()}/locks`, locks: app.get(LockService) };
}

async function watch(url: string): Promise<EventReader> {
  const reader = await readEvents(`${url}/events`);
  readers.push(reader);
  return reader;
}

describe('the guards of the board', () => {
  it('are asked for every route, and who is refused gets 403 and changes nothing', async () => {
    const { url, locks } = await serve({ guards: [WordGuard], forceRelease: true });
    const lease = await locks.acquire('order:1');
    for (const path of ['', '/page/board.js', '/events', '/lock?instance=default&key=order:1']) expect((await fetch(url + path)).status).toBe(403);
    const release = `${url}/force-release?instance=default&key=order:1&fence=${lease.fence}`;
    expect((await fetch(release, { method: 'POST', headers: OWN })).status).toBe(403);
    expect(await lease.verify()).toBe(true);
    expect((await fetch(url, { headers: { word: 'friend' } })).status).toBe(200);
    await lease.release();
  });

  it('may inject what the modules of `imports` export', async () => {
    @Module({ providers: [{ provide: 'word', useValue: 'friend' }], exports: ['word'] })
    class WordModule {}
    class InjectingGuard implements CanActivate {
      static inject = ['word'];
      constructor(private readonly word: string) {}
      canActivate(): boolean {
        return this.word === 'friend';
      }
    }
    Reflect.defineMetadata('self:paramtypes', [{ index: 0, param: 'word' }], InjectingGuard);
    const { url } = await serve({ guards: [InjectingGuard], imports: [WordModule] });
    expect((await fetch(url)).status).toBe(200);
  });

  it('must be given in production: the boot fails without them', async () => {
    const given = process.env['NODE_ENV'];
    process.env['NODE_ENV'] = 'production';
    try {
      const boot = (options: LockBoardOptions) => startAlone({ imports: [LockModule.forRoot({ embedded: true }), LockBoardModule.forRoot(options)] });
      await expect(boot({})).rejects.toMatchObject({ code: 'LOCK_USAGE', message: expect.stringContaining('guards') });
      await expect(boot({ guards: [] })).rejects.toMatchObject({ code: 'LOCK_USAGE' });
      await boot({ guards: [WordGuard] });
    } finally {
      process.env['NODE_ENV'] = given;
    }
  });

  it('are missed aloud where the board may do without them', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await startApp({ imports: [LockBoardModule.forRoot({ path: '/ops/locks', forceRelease: true })] });
    expect(warn).toHaveBeenCalledWith(expect.stringMatching(/Everybody .* see locks and take them away at '\/ops\/locks'/));
  });
});

describe('the page of the board', () => {
  it('loads its own files only, below the path and the prefix where it was asked for, under a strict policy', async () => {
    const app = await startApp({ imports: [LockBoardModule.forRoot({ path: 'ops/locks' })] });
    await app.listen(0, '127.0.0.1');
    for (const address of ['/ops/locks', '/ops/locks/']) {
      const page = await fetch((await app.getUrl()) + address);
      expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'self'; /);
      expect(page.headers.get('content-security-policy')).not.toMatch(/unsafe|\*|data:/);
      const html = await page.text();
      const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => new URL(file ?? '', page.url));
      expect(files.length).toBe(3);
      for (const file of files) expect((await fetch(file)).status).toBe(200);
      expect(html).not.toMatch(/<script>|<style|style="|onclick=/);
    }
  });

  it('is not open to text in the address', async () => {
    const { url } = await serve();
    expect(await (await fetch(`${url}/page/%3Cb%3E.js`)).json()).toEqual({ message: 'The board has no file <b>.js.' });
    expect((await fetch(`${url}/page/board.html`)).status).toBe(404);
    expect((await fetch(`${url}/page/toString`)).status).toBe(404);
  });
});

describe('the events of the board', () => {
  it('show a hold within a second: key, mode, method, fence, age, rest of the lease', async () => {
    const { url, locks } = await serve();
    const viewer = await watch(url);
    await using lease = await locks.acquire('order:1');
    const [view] = await within(1_000, () => viewer.until((one) => one.instances[0]!.held === 1));
    expect(view.instances[0]).toMatchObject({ name: 'default', waitedFor: 0, more: 0 });
    const [row] = view.instances[0]!.rows;
    expect(row).toMatchObject({ key: 'order:1', mode: 'write', waiters: [], callsHere: [] });
    expect(row!.holders).toMatchObject([{ fence: lease.fence, pid: process.pid }]);
    expect(Math.abs(view.at - row!.holders[0]!.since!)).toBeLessThan(60_000);
  });

  it('show who leads a role, since when, and who stands for it, which counts as no wait; a failure of the leader is told', async () => {
    const { url, locks } = await serve();
    const viewer = await watch(url);
    await using leadership = locks.lead('indexer', (term) => new Promise((resolve) => term.signal.addEventListener('abort', () => resolve())));
    await using _candidate = locks.lead('indexer', async () => {
      throw new Error('no index');
    });
    const [view] = await viewer.until((one) => sum(one.instances[0]!.rows[0]?.callsHere) === 1);
    expect(view.instances[0]).toMatchObject({ held: 1, waitedFor: 0, waiting: 0 });
    expect(view.instances[0]!.rows).toMatchObject([{ key: 'leader:indexer', role: 'indexer', holders: [{ fence: leadership.term!.fence, since: expect.any(Number) }] }]);
    await leadership.stop();
    const [failed] = await viewer.until((one) => one.instances[0]!.history.incidents.length > 0);
    expect(failed.instances[0]!.history.incidents).toMatchObject([{ type: 'failed', key: 'leader:indexer', message: 'the function of the leader failed: no index' }]);
  });

  it('show calls that wait in this process behind a hold of its own, and forget them when they end', async () => {
    const { url, locks } = await serve();
    const viewer = await watch(url);
    const hold = await locks.acquire('order:1');
    const waiting = [locks.withLock('order:1', () => undefined), locks.withLock('order:1', { mode: 'read' }, () => undefined)];
    const abort = new AbortController();
    const cancelled = locks.withLock('order:1', { signal: abort.signal }, () => undefined);
    const callsOf = async (count: number) => (await viewer.until((one) => sum(one.instances[0]!.rows[0]?.callsHere) === count))[0];
    expect((await callsOf(3)).instances[0]!.rows[0]!.callsHere).toMatchObject([{ mode: 'write', count: 2 }, { mode: 'read', count: 1 }]);
    abort.abort(new Error('changed my mind'));
    await expect(cancelled).rejects.toThrow('changed my mind');
    await callsOf(2);
    await hold.release();
    await Promise.all(waiting);
    await using _again = await locks.acquire('order:1');
    await callsOf(0);
  });

  it('say which store it is, what is switched off there, how many calls wait here and for how long, and of a recovery', async () => {
    await using redis = await startRedis();
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const app = await startAlone({ imports: [LockModule.forRoot({ redis: redis.url, recoveryMs: 2_000 }), LockBoardModule.forRoot()] });
    await app.listen(0, '127.0.0.1');
    const locks = app.get(LockService);
    const viewer = await watch(`${await app.getUrl()}/locks`);
    const lease = await locks.acquire('order:1', { label: 'stocktaking' });
    const waits = locks.withLock('order:1', () => undefined);
    const [view] = await viewer.until((one) => one.instances[0]!.here.longestMs > 300);
    expect(view.instances[0]).toMatchObject({ store: { place: `one Redis (127.0.0.1:${redis.port})`, prefix: 'lock' }, here: { count: 1 }, recovery: { recoveries: 0, recoversForMs: 0 } });
    expect(view.instances[0]!.rows[0]).toMatchObject({ holders: [{ label: 'stocktaking' }], callsHere: [{ count: 1, longestMs: expect.any(Number) }] });
    await redis.command('FLUSHALL');
    // The first request that reaches the server afterwards notices it.
    await locks.tryAcquire('order:2').catch(() => null);
    const [after] = await viewer.until((one) => one.instances[0]!.recovery!.recoversForMs > 0);
    expect(after.instances[0]!.recovery).toMatchObject({ recoveries: 1 });
    await lease.release();
    await waits;
  });

  it('show how many permits of a lock are held', async () => {
    const { url, locks } = await serve();
    await using _one = await locks.acquire('smtp', { permits: 3 });
    await using _other = await locks.acquire('smtp', { permits: 3 });
    const [view] = await (await watch(url)).until((one) => one.instances[0]!.rows[0]?.holders.length === 2);
    expect(view.instances[0]!.rows).toMatchObject([{ key: 'smtp', permits: 3 }]);
  });

  it('say for how long a process has been seen to wait', async () => {
    await using redis = await startRedis();
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const module = () => LockModule.forRoot({ redis: redis.url });
    const app = await startAlone({ imports: [module(), LockBoardModule.forRoot()] });
    const beside = (await startAlone({ imports: [module()] })).get(LockService);
    await app.listen(0, '127.0.0.1');
    const viewer = await watch(`${await app.getUrl()}/locks`);
    const lease = await app.get(LockService).acquire('order:1');
    const waits = beside.withLock('order:1', { label: 'the other' }, () => undefined);
    const seenForMs = (one: BoardView): number => one.instances[0]!.rows[0]?.waiters[0]?.seenForMs ?? 0;
    const [view] = await viewer.until((one) => seenForMs(one) > 300);
    expect(view.instances[0]).toMatchObject({ processes: 1, here: { count: 0 } });
    expect(view.instances[0]!.rows[0]!.waiters).toMatchObject([{ label: 'the other', pid: process.pid }]);
    await lease.release();
    await waits;
  });

  it('tell of losses and of calls that gave up, but not of those that did not want to wait', async () => {
    const { url, locks } = await serve();
    const viewer = await watch(url);
    const hold = await locks.acquire('order:1');
    expect(await locks.tryAcquire('order:1')).toBeNull();
    await expect(locks.acquire('order:1', { waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await locks.forceRelease('order:1');
    const [view] = await viewer.until((one) => one.instances[0]!.history.incidents.length === 2);
    const { incidents, counts } = view.instances[0]!.history;
    expect(incidents).toMatchObject([{ type: 'lost', key: 'order:1' }, { type: 'gaveUp', key: 'order:1' }]);
    expect([counts.refused, counts.gaveUp, counts.lost, counts.waiting].map(sumOf)).toEqual([1, 1, 1, 1]);
    await hold.release();
  });

  it('are of one look shared by all viewers, and of none while nobody watches', async () => {
    const { url, locks } = await serve();
    const look = locks.list.bind(locks);
    const lookedAt: number[] = [];
    const list = jest.spyOn(locks, 'list').mockImplementation((options) => (lookedAt.push(performance.now()), look(options)));
    const viewers = await Promise.all(Array.from({ length: 5 }, () => watch(url)));
    await Promise.all(viewers.map((viewer) => viewer.until((_, seen) => seen === 4)));
    // Five viewers that looked each for itself would look several times within one rest of 400 ms.
    expect(Math.min(...lookedAt.slice(1).map((at, n) => at - lookedAt[n]!))).toBeGreaterThan(390);
    for (const viewer of viewers) viewer.close();
    await eventually(async () => {
      const before = list.mock.calls.length;
      await new Promise((resolve) => setTimeout(resolve, 600));
      expect(list.mock.calls.length).toBe(before);
    });
  });

  it('show the most waited for of many locks, and count the rest', async () => {
    const { url, locks } = await serve();
    const leases = await Promise.all(Array.from({ length: 700 }, (_, n) => locks.acquire(`order:${n}`)));
    const viewer = await watch(url);
    const [view] = await viewer.until(() => true);
    expect(view.instances[0]).toMatchObject({ held: 700, more: 200 });
    expect(view.instances[0]!.rows).toHaveLength(500);
    await Promise.all(leases.map((lease) => lease.release()));
  });

  it('go on while the store does not answer, and say so', async () => {
    const { url, locks } = await serve();
    const list = jest.spyOn(locks, 'list').mockImplementation(() => {
      throw new Error('the store is away');
    });
    const viewer = await watch(url);
    await viewer.until((one) => one.instances[0]!.problem === 'the store is away');
    list.mockRestore();
    await viewer.until((one) => one.instances[0]!.problem === undefined);
  });

  it('end when the application closes, which does not wait for viewers', async () => {
    const { app, url } = await serve();
    const viewer = await watch(url);
    await viewer.until(() => true);
    await app.close();
    await viewer.ended;
  });
});

describe('a forced release from the board', () => {
  const releaseOf = (url: string, key: string, fence: number) => `${url}/force-release?${new URLSearchParams({ instance: 'default', key, fence: String(fence) })}`;

  it('takes the lock from the holder with this fence, whose work is told, and writes it into the log', async () => {
    const { url, locks } = await serve({ forceRelease: true });
    const told = new Gate();
    const hold = locks.withLock('order:1', async ({ signal }) => {
      signal.addEventListener('abort', () => told.release());
      await told.opened;
    });
    hold.catch(() => undefined);
    await eventually(async () => expect(await locks.isLocked('order:1')).toBe(true));
    const [holder] = (await locks.inspect('order:1')).holders;
    const other = await fetch(releaseOf(url, 'order:1', holder!.fence + 1_000_000), { method: 'POST', headers: OWN });
    expect(await other.json()).toEqual({ released: false });
    const answer = await fetch(releaseOf(url, 'order:1', holder!.fence), { method: 'POST', headers: OWN });
    expect([answer.status, await answer.json()]).toEqual([200, { released: true }]);
    await told.opened;
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(Logger.prototype.warn).toHaveBeenCalledWith(expect.stringContaining("Lock 'order:1' was taken away"));
  });

  it('and its rows take and show a key as it was written, with any character in it', async () => {
    const { url, locks } = await serve({ forceRelease: true });
    const key = 'order:urn:{7}:50%\n';
    const lease = await locks.acquire(key);
    const viewer = await watch(url);
    const [view] = await viewer.until((one) => one.instances[0]!.held === 1);
    expect(view.instances[0]!.rows).toMatchObject([{ key }]);
    expect(await (await fetch(`${url}/lock?${new URLSearchParams({ instance: 'default', key })}`)).json()).toMatchObject({ key, mode: 'write' });
    const answer = await fetch(releaseOf(url, key, lease.fence), { method: 'POST', headers: OWN });
    expect(await answer.json()).toEqual({ released: true });
  });

  it('has no route unless it is switched on', async () => {
    const { url, locks } = await serve();
    await using lease = await locks.acquire('order:1');
    expect((await fetch(releaseOf(url, 'order:1', lease.fence), { method: 'POST', headers: OWN })).status).toBe(404);
    expect(await (await fetch(url)).text()).toContain('data-force-release="false"');
  });

  it('is refused to requests that another site made a browser send', async () => {
    const { url, locks } = await serve({ forceRelease: true });
    await using lease = await locks.acquire('order:1');
    const address = releaseOf(url, 'order:1', lease.fence);
    const foreign = [{}, { ...OWN, 'sec-fetch-site': 'cross-site' }, { ...OWN, 'sec-fetch-site': 'same-site' }, { ...OWN, origin: 'https://elsewhere.example' }];
    for (const headers of foreign) expect((await fetch(address, { method: 'POST', headers })).status).toBe(403);
    expect((await fetch(address, { headers: OWN })).status).toBe(404);
    expect(await lease.verify()).toBe(true);
    const own = { ...OWN, origin: new URL(url).origin };
    expect(await (await fetch(address, { method: 'POST', headers: own })).json()).toEqual({ released: true });
  });

  it('needs a fence, a key and an instance that the board shows', async () => {
    const { url } = await serve({ forceRelease: true });
    const statusOf = async (query: string) => (await fetch(`${url}/force-release?${query}`, { method: 'POST', headers: OWN })).status;
    expect(await statusOf('instance=default&key=order:1')).toBe(400);
    expect(await statusOf('instance=default&fence=5')).toBe(400);
    expect(await statusOf('instance=default&key=a&key=b&fence=5')).toBe(400);
    expect(await statusOf('instance=billing&key=order:1&fence=5')).toBe(400);
  });
});

describe('one lock by its key', () => {
  it('is answered though it has no row, and bad keys are told as such', async () => {
    const { url, locks } = await serve();
    await using lease = await locks.acquire('order:1');
    expect(await (await fetch(`${url}/lock?instance=default&key=order:1`)).json()).toMatchObject({ key: 'order:1', holders: [{ fence: lease.fence }] });
    expect((await fetch(`${url}/lock?instance=default&key=`)).status).toBe(400);
  });
});

describe('the options of the board', () => {
  it('are refused when they are not known, and the boot fails for an instance that does not exist', async () => {
    expect(() => LockBoardModule.forRoot({ guard: [] } as LockBoardOptions)).toThrow("unknown option 'guard'");
    const refusal = (options: object) => expect(() => LockBoardModule.forRoot(options as LockBoardOptions));
    refusal({ instances: [] }).toThrow('expected instances to be an array of the names of lock modules, each once and at least one, got []');
    refusal({ instances: ['a', 'a'] }).toThrow("got ['a', 'a']");
    refusal({ instances: 'a' }).toThrow("got 'a'");
    refusal({ path: 7 }).toThrow("LockBoardModule options: expected path to be a text such as '/locks', got 7");
    refusal({ guards: class {} }).toThrow('expected guards to be an array, got a function');
    refusal({ forceRelease: 'yes' }).toThrow("expected forceRelease to be true or false, got 'yes'");
    await expect(startApp({ imports: [LockBoardModule.forRoot({ instances: ['billing'] })] })).rejects.toMatchObject({ message: expect.stringContaining("'billing'") });
  });
});

function sum(calls: readonly { count: number }[] | undefined): number | undefined {
  return calls?.reduce((total, { count }) => total + count, 0);
}

const sumOf = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

// Applications that change every route: by interceptors, by versions, by time limits of their server.

/** What every viewer sees of an application with one held lock: the views go on, and those after a release differ. */
async function expectLive(url: string, locks: LockService): Promise<void> {
  const lease = await locks.acquire('order:1');
  const viewer = await watch(url);
  await viewer.until((view) => view.instances[0]!.held === 1);
  await lease.release();
  await viewer.until((view, seen) => seen > 2 && view.instances[0]!.held === 0);
}

describe('an interceptor of the application', () => {
  it('that wraps results changes none of what the board sends', async () => {
    const { url, locks } = await serve({}, { interceptor: { intercept: (_, next) => next.handle().pipe(map((data: unknown) => ({ success: true, data }))) } });
    await expectLive(url, locks);
    expect((await fetch(url)).headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(await (await fetch(`${url}/lock?instance=default&key=order:1`)).json()).toMatchObject({ key: 'order:1', holders: [] });
  });

  it('that keeps results and answers with them does not repeat a view', async () => {
    const { url, locks } = await serve({}, { interceptor: new KeepingInterceptor() });
    await expectLive(url, locks);
    await expectLive(url, locks);
  });

  it('that sets a header when the handler has returned does not end the views', async () => {
    const interceptor: NestInterceptor = { intercept: (context, next) => next.handle().pipe(tap(() => headersOf(context).setHeader('x-took', '1 ms'))) };
    const { url, locks } = await serve({}, { interceptor });
    await expectLive(url, locks);
  });
});

describe('the stream of views', () => {
  it('has the headers and the frames that an @Sse route of Nest has', async () => {
    const { url } = await serve();
    const { headers, text } = await beginningOf(`${url}/events`);
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream',
      connection: 'keep-alive',
      'cache-control': 'private, no-cache, no-store, must-revalidate, max-age=0, no-transform',
      pragma: 'no-cache',
      expires: '0',
      'x-accel-buffering': 'no',
    });
    expect(text).toMatch(/^\nid: 1\nretry: 500\ndata: \{"at":.*\}\n\nid: 2\nretry: 500\ndata: \{"at":.*\}\n\n$/);
  });
});

describe('versions of the API of an application', () => {
  it.each<[string, VersioningOptions]>([
    ['a header', { type: VersioningType.HEADER, header: 'x-version', defaultVersion: '1' }],
    ['the media type', { type: VersioningType.MEDIA_TYPE, key: 'v=', defaultVersion: '1' }],
    ['the address', { type: VersioningType.URI, defaultVersion: '1' }],
  ])('that %s names do not hide the board, for which a browser names none', async (_, versioning) => {
    const { url, locks } = await serve({ forceRelease: true }, { versioning });
    const lease = await locks.acquire('order:1');
    const statuses = ['', '/page/board.js', '/lock?instance=default&key=order:1'].map(async (path) => (await fetch(url + path)).status);
    expect(await Promise.all(statuses)).toEqual([200, 200, 200]);
    await (await watch(url)).until((view) => view.instances[0]!.held === 1);
    const release = `${url}/force-release?instance=default&key=order:1&fence=${lease.fence}`;
    const answer = await fetch(release, { method: 'POST', headers: OWN });
    expect(await answer.json()).toEqual({ released: true });
  });
});

/** Answers with the first result of each address, as the CacheInterceptor of @nestjs/cache-manager does. */
class KeepingInterceptor implements NestInterceptor {
  private readonly kept = new Map<string, unknown>();

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { url } = context.switchToHttp().getRequest<{ url: string }>();
    const kept = this.kept.get(url);
    if (kept !== undefined) return of(kept);
    return next.handle().pipe(tap((result) => this.kept.set(url, result)));
  }
}

function headersOf(context: ExecutionContext): { setHeader(name: string, value: string): unknown } {
  return context.switchToHttp().getResponse();
}

/** The headers of a stream, and its text until the end of the second event. */
async function beginningOf(url: string): Promise<{ headers: IncomingHttpHeaders; text: string }> {
  const request = get(url);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += String(chunk);
    if (text.split('\n\n').length > 2) break;
  }
  request.destroy();
  return { headers: response.headers, text };
}
