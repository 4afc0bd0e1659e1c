import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Catch, Controller, Get, Logger, Param, Query, Res, UseFilters, type ArgumentsHost } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import type { ServerResponse } from 'node:http';
import { firstValueFrom, isObservable } from 'rxjs';
import request from 'supertest';
import {
  Locked,
  LockClosedError,
  LockExceptionFilter,
  LockKeyError,
  LockLostError,
  LockService,
  LockStoreError,
  LockTimeoutError,
  LockUsageError,
  type LockError,
} from '../../lib/index.js';
import { startApp } from './application.js';

const errors: Record<string, LockError> = {
  timeout: new LockTimeoutError(`Lock 'secret-key' was still busy`, { key: 'secret-key', waitMs: 1 }),
  store: new LockStoreError(`Lock 'secret-key': the store at secret-host is away`, { key: 'secret-key' }),
  closed: new LockClosedError(`Lock 'secret-key' was not taken`, { key: 'secret-key' }),
  key: new LockKeyError('Secret.method: no key can be made'),
  lost: new LockLostError(`Lock 'secret-key' was lost`, { key: 'secret-key' }),
  usage: new LockUsageError('Secret.method is used wrongly'),
};

let logged: unknown[][];
let warned: unknown[][];

beforeEach(() => {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  warned = warn.mock.calls;
  const error = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
  logged = error.mock.calls;
});
afterEach(() => void jest.restoreAllMocks());

describe('over HTTP', () => {
  @Controller()
  class Orders {
    @Get('errors/:name')
    async fail(@Param('name') name: string): Promise<never> {
      throw errors[name]!;
    }

    @Get('unnamed')
    @Locked('order:<0.id>')
    async unnamed(@Query() order: { id?: string }): Promise<string> {
      return String(order.id);
    }

    @Get('orders/:id')
    @Locked('order:<0>', { waitMs: 0 })
    async pay(@Param('id') id: string): Promise<string> {
      return id;
    }
  }

  const start = () => startApp({ controllers: [Orders], providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }] });

  it.each([
    ['timeout', 423, '1', 0],
    ['store', 503, '1', 1],
    ['closed', 503, '1', 0],
    ['key', 400, undefined, 1],
    ['lost', 500, undefined, 1],
    ['usage', 500, undefined, 1],
  ])('%s is %i, Retry-After %s, and tells nothing that clients should not know', async (name, status, retryAfter, lines) => {
    const app = await start();
    const answer = await request(app.getHttpServer()).get(`/errors/${name}`).expect(status);
    expect(answer.headers['retry-after']).toBe(retryAfter);
    expect(answer.body).toEqual({ statusCode: status, code: errors[name]!.code, message: expect.any(String) });
    expect(answer.text).not.toMatch(/secret/i);
    expect(logged).toHaveLength(lines);
  });

  it('a key that a template could not make of the arguments is an error in the log, which names the method', async () => {
    const app = await start();
    await request(app.getHttpServer()).get('/unnamed').expect(400);
    expect(logged).toEqual([[expect.stringMatching(/Orders\.unnamed: .*<0\.id> \(argument 0\) is undefined/), expect.stringContaining('LockKeyError')]]);
  });

  it('a shutdown writes one warning without a stack, however many requests it turns away', async () => {
    const app = await start();
    for (let count = 0; count < 3; count++) await request(app.getHttpServer()).get('/errors/closed').expect(503);
    expect(warned).toEqual([[expect.stringContaining(`Lock 'secret-key' was not taken`)]]);
    expect(logged).toEqual([]);
  });

  it('a busy order is 423, a free one 200', async () => {
    const app = await start();
    await request(app.getHttpServer()).get('/orders/7').expect(200, '7');
    await using _held = await app.get(LockService).acquire('order:7');
    await request(app.getHttpServer()).get('/orders/7').expect(423).expect('Retry-After', '1');
  });

  it('answers beside a filter that catches everything when it is registered after that, and not before', async () => {
    @Catch()
    class Everything {
      catch(_error: unknown, host: ArgumentsHost): void {
        host.switchToHttp().getResponse<ServerResponse & { sendStatus(code: number): void }>().sendStatus(418);
      }
    }
    const filters = [{ provide: APP_FILTER, useClass: Everything }, { provide: APP_FILTER, useClass: LockExceptionFilter }];
    for (const [providers, status] of [[filters, 423], [[...filters].reverse(), 418]] as const) {
      const app = await startApp({ controllers: [Orders], providers: [...providers] });
      await request(app.getHttpServer()).get('/errors/timeout').expect(status);
    }
  });

  it('needs nothing injected', async () => {
    @Controller('alone')
    @UseFilters(new LockExceptionFilter())
    class Alone extends Orders {}
    const app = await startApp({ controllers: [Alone] });
    await request(app.getHttpServer()).get('/alone/errors/timeout').expect(423);
  });

  it('adds nothing to an answer that has begun, but ends it', () => {
    const send = jest.fn();
    const end = jest.fn();
    const begun = [
      { headersSent: true, send, status: send, header: send, end },
      { sent: true, send, status: send, header: send, raw: { end } },
    ];
    const endless = { headersSent: true, send, status: send, header: send };
    for (const response of [...begun, endless]) new LockExceptionFilter().catch(errors['timeout']!, new ExecutionContextHost([{}, response]));
    expect(send).not.toHaveBeenCalled();
    expect(end).toHaveBeenCalledTimes(2);
  });

  it('does not let a client wait for the rest of an answer that has begun', async () => {
    @Controller('begun')
    @UseFilters(new LockExceptionFilter())
    class Begun {
      @Get()
      fail(@Res() response: ServerResponse): void {
        response.write('begun');
        throw errors['timeout']!;
      }
    }
    const app = await startApp({ controllers: [Begun] });
    await request(app.getHttpServer()).get('/begun').timeout(1_000).expect(200, 'begun');
  });
});

describe('over other transports', () => {
  const filtered = (type: string, args: unknown[], error = errors['timeout']!): unknown => {
    const host = new ExecutionContextHost(args);
    host.setType(type);
    return new LockExceptionFilter().catch(error, host);
  };

  it('a resolver fails with a code', () => {
    const error = filtered('graphql', []);
    expect(error).toBeInstanceOf(Error);
    expect(error).toHaveProperty('extensions', { code: 'LOCK_TIMEOUT', http: { status: 423 } });
  });

  it.each<[string, object]>([
    ['which can only emit', {}],
    ['which can send as well', { send: jest.fn() }],
    ['which says its state in a word', { send: jest.fn(), readyState: 'open' }],
    ['which says its state in a number and cannot send', { readyState: 1 }],
  ])('a Socket.IO client %s gets an exception event', (_what, more) => {
    const emit = jest.fn();
    filtered('ws', [{ emit, ...more }]);
    expect(emit).toHaveBeenCalledWith('exception', expect.objectContaining({ status: 'error', code: 'LOCK_TIMEOUT' }));
  });

  it.each([undefined, null, 'a text', {}, { emit: true }])('a client that can be told nothing is told nothing: %p', (client) => {
    expect(filtered('ws', [client])).toBeUndefined();
  });

  it('a plain WebSocket gets an exception message', () => {
    const [emit, send] = [jest.fn(), jest.fn<(text: string) => void>()];
    filtered('ws', [{ emit, send, readyState: 1 }]);
    expect(emit).not.toHaveBeenCalled();
    expect(JSON.parse(send.mock.calls[0]![0])).toMatchObject({ event: 'exception', data: { code: 'LOCK_TIMEOUT' } });
  });

  it('a message of a microservice is answered by an error', async () => {
    const answer = filtered('rpc', [], errors['store']!);
    if (!isObservable(answer)) throw new Error('expected an Observable');
    await expect(firstValueFrom(answer)).rejects.toMatchObject({ status: 'error', code: 'LOCK_STORE' });
  });

  it('elsewhere the error goes on as it is', () => {
    expect(() => filtered('job', [])).toThrow(errors['timeout']!);
  });
});
