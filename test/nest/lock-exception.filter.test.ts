import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Catch, Controller, Get, Logger, Param, Query, Res, UseFilters, type ArgumentsHost } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { once } from 'node:events';
import http, { Agent, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { firstValueFrom, isObservable } from 'rxjs';
import request from 'supertest';
import {
  Locked, LockClosedError, LockExceptionFilter, LockKeyError, LockLostError, LockService, LockStoreError, LockTimeoutError, LockUsageError,
  type LockError,
} from '../../lib/index.js';
import { startApp } from './application.js';

const errors: Record<string, LockError> = {
  timeout: new LockTimeoutError(`Lock 'secret-key' was still busy`, { key: 'secret-key', waitMs: 1 }),
  store: new LockStoreError(`Lock 'secret-key': the store at secret-host is away`, { key: 'secret-key' }),
  closed: new LockClosedError(`Lock 'secret-key' was not taken`, { key: 'secret-key' }),
  key: new LockKeyError('Secret.method: no key can be made'),
  lost: new LockLostError(`Lock 'secret-key' was lost`, { key: 'secret-key' }),
  done: new LockLostError(`Lock 'secret-key' was lost`, { key: 'secret-key', outcome: { status: 'fulfilled', value: 'secret' } }),
  failed: new LockLostError(`Lock 'secret-key' was lost`, { key: 'secret-key', outcome: { status: 'rejected', reason: new Error('secret disk') } }),
  other: new LockLostError(`Lock 'other-key' was lost`, { key: 'other-key' }),
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
    ['timeout', 423, '1', 'keep-alive', 0, 0],
    ['store', 503, '1', 'close', 1, 0],
    ['closed', 503, '1', 'close', 1, 0],
    ['key', 400, undefined, 'keep-alive', 1, 0],
    ['lost', 500, undefined, 'keep-alive', 0, 1], ['done', 500, undefined, 'keep-alive', 0, 0],
    ['failed', 500, undefined, 'keep-alive', 0, 1],
    ['usage', 500, undefined, 'keep-alive', 0, 1],
  ])('%s is %i, Retry-After %s, Connection %s, and tells nothing that clients should not know', async (name, status, retryAfter, connection, warnings, lines) => {
    const app = await start();
    const answer = await request(app.getHttpServer()).get(`/errors/${name}`).set('Connection', 'keep-alive').expect(status);
    expect(answer.headers['retry-after']).toBe(retryAfter);
    expect(answer.headers['connection']).toBe(connection);
    expect(answer.body).toEqual({ statusCode: status, code: errors[name]!.code, message: expect.any(String) });
    expect(answer.text).not.toMatch(/secret/i);
    expect([warned.length, logged.length]).toEqual([warnings, lines]);
  });

  it('each key whose work was interrupted is named in the log, because somebody has to look at what was done', async () => {
    const app = await start();
    for (const name of ['lost', 'other', 'lost']) await request(app.getHttpServer()).get(`/errors/${name}`);
    expect(logged).toEqual([[errors['lost']!.message], [errors['other']!.message]]);
  });

  it('a key that a template could not make of the arguments is a warning in the log, which names the method', async () => {
    const app = await start();
    await request(app.getHttpServer()).get('/unnamed').expect(400);
    expect([warned, logged]).toEqual([[[expect.stringMatching(/Orders\.unnamed: .*<0\.id> \(argument 0\) is undefined/)]], []]);
  });

  it.each(['store', 'closed', 'key', 'usage'])('many requests that fail alike are one line without a stack: %s', async (name) => {
    const app = await start();
    for (let count = 0; count < 20; count++) await request(app.getHttpServer()).get(`/errors/${name}`);
    expect([...warned, ...logged]).toEqual([[errors[name]!.message]]);
  });

  it('a client that keeps its connection to a process that shuts down is answered once on it', async () => {
    const app = await start();
    await app.listen(0, '127.0.0.1');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const get = async (path: string): Promise<Socket> => {
      const [answer] = (await once(http.get(`${await app.getUrl()}/${path}`, { agent }), 'response')) as [IncomingMessage];
      const { socket } = answer;
      await once(answer.resume(), 'end');
      return socket;
    };
    const kept = await get('orders/7');
    const closed = await get('errors/closed');
    expect(closed).toBe(kept);
    if (!closed.destroyed) await once(closed, 'close');
    expect(await get('orders/7')).not.toBe(kept);
    agent.destroy();
  });

  it.each([[1, 'close'], [2, undefined]])('a reply of Fastify over HTTP/%i has the header Connection: %s', (httpVersionMajor, connection) => {
    const headers: Record<string, string> = {};
    const reply = { sent: false, raw: { req: { httpVersionMajor } }, status: jest.fn(), send: jest.fn(), header: (name: string, value: string) => (headers[name] = value) };
    new LockExceptionFilter().catch(errors['closed']!, new ExecutionContextHost([{}, reply]));
    expect(headers['Connection']).toBe(connection);
    expect(reply.send).toHaveBeenCalledWith(expect.objectContaining({ code: 'LOCK_CLOSED' }));
  });

  it('an error of another copy of the package is answered by its code, and what only looks like one is not', async () => {
    @Controller('copies')
    class Copies {
      @Get(':code')
      fail(@Param('code') code: string): never {
        throw Object.assign(new Error('of another copy'), { code });
      }
    }
    const app = await startApp({ controllers: [Copies], providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }] });
    await request(app.getHttpServer()).get('/copies/LOCK_TIMEOUT').expect(423);
    await request(app.getHttpServer()).get('/copies/LOCK_NOWAIT').expect(500);
    await request(app.getHttpServer()).get('/copies/toString').expect(500);
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

  it('adds nothing to an answer that has begun, but ends it', () => {
    const send = jest.fn();
    const end = jest.fn();
    const begun = [{ headersSent: true, send, status: send, header: send, end }, { sent: true, send, status: send, header: send, raw: { end } }];
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

  it.each([['timeout', 10], ['store', 14], ['closed', 14], ['key', 3], ['lost', 13], ['usage', 9]])('a call of gRPC that failed by %s has the status %i', async (name, code) => {
    const answer = filtered('rpc', [{}, {}, { sendMetadata: () => undefined }], errors[name]!);
    if (!isObservable(answer)) throw new Error('expected an Observable');
    await expect(firstValueFrom(answer)).rejects.toEqual({ code, message: expect.not.stringMatching(/secret/i) });
  });

  it('elsewhere the error goes on as it is', () => expect(() => filtered('job', [])).toThrow(errors['timeout']!));
});
