/** The board in applications that change every route: by interceptors, by versions, by time limits of their server. */
import { once } from 'node:events';
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, VersioningType, type CallHandler, type ExecutionContext, type INestApplication, type NestInterceptor, type VersioningOptions } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { map, of, tap, type Observable } from 'rxjs';
import { LockBoardModule } from '../../lib/board/index.js';
import { LockService } from '../../lib/lock.service.js';
import { LockModule } from '../../lib/nest/lock.module.js';
import { startAlone } from '../nest/application.js';
import { readEvents, type EventReader } from './event-reader.js';

const readers: EventReader[] = [];

beforeEach(() => {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
});

afterEach(() => {
  for (const reader of readers.splice(0)) reader.close();
  jest.restoreAllMocks();
});

interface Settings {
  readonly interceptor?: NestInterceptor;
  readonly versioning?: VersioningOptions;
}

async function serve({ interceptor, versioning }: Settings): Promise<{ app: INestApplication; url: string; locks: LockService }> {
  const providers = interceptor === undefined ? [] : [{ provide: APP_INTERCEPTOR, useValue: interceptor }];
  const modules = [LockModule.forRoot({ embedded: true }), LockBoardModule.forRoot({ forceRelease: true })];
  const app = await startAlone({ imports: modules, providers }, (made) => versioning && made.enableVersioning(versioning));
  await app.listen(0, '127.0.0.1');
  return { app, url: `${await app.getUrl()}/locks`, locks: app.get(LockService) };
}

async function watch(url: string): Promise<EventReader> {
  const reader = await readEvents(`${url}/events`);
  readers.push(reader);
  return reader;
}

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
    const { url, locks } = await serve({ interceptor: { intercept: (_, next) => next.handle().pipe(map((data: unknown) => ({ success: true, data }))) } });
    await expectLive(url, locks);
    expect((await fetch(url)).headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(await (await fetch(`${url}/lock?instance=default&key=order:1`)).json()).toMatchObject({ key: 'order:1', holders: [] });
  });

  it('that keeps results and answers with them does not repeat a view', async () => {
    const { url, locks } = await serve({ interceptor: new KeepingInterceptor() });
    await expectLive(url, locks);
    await expectLive(url, locks);
  });

  it('that sets a header when the handler has returned does not end the views', async () => {
    const interceptor: NestInterceptor = {
      intercept: (context, next) => next.handle().pipe(tap(() => headersOf(context).setHeader('x-took', '1 ms'))),
    };
    const { url, locks } = await serve({ interceptor });
    await expectLive(url, locks);
  });
});

describe('the stream of views', () => {
  it('has the headers and the frames that an @Sse route of Nest has', async () => {
    const { url } = await serve({});
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
    const { url, locks } = await serve({ versioning });
    const lease = await locks.acquire('order:1');
    const statuses = ['', '/page/board.js', '/lock?instance=default&key=order:1'].map(async (path) => (await fetch(url + path)).status);
    expect(await Promise.all(statuses)).toEqual([200, 200, 200]);
    await (await watch(url)).until((view) => view.instances[0]!.held === 1);
    const release = `${url}/force-release?instance=default&key=order:1&fence=${lease.fence}`;
    const answer = await fetch(release, { method: 'POST', headers: { 'x-holdfast-board': 'force-release' } });
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
