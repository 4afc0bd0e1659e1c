/** What a locked method or route may give and what is a stream; a stream is refused and ended, so that it keeps nothing open. */
import { describe, expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { createReadStream } from 'node:fs';
import { PassThrough, Readable } from 'node:stream';
import {
  applyDecorators, Catch, Controller, Get, Injectable, StreamableFile, UseInterceptors, type ArgumentsHost, type CallHandler, type ExceptionFilter,
  type ExecutionContext, type NestInterceptor,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { lastValueFrom, mergeMap, of, type Observable } from 'rxjs';
import request from 'supertest';
import { Locked, LockInterceptor, LockService, LockUsageError } from '../../lib/index.js';
import { interceptorToken } from '../../lib/nest/lock-names.js';
import { startApp, until } from './application.js';

@Injectable()
class Giving {
  give: unknown;

  @Locked('giving')
  async later(): Promise<unknown> {
    return this.give;
  }

  @Locked('giving')
  atOnce(): Promise<unknown> {
    return this.give as Promise<unknown>;
  }

  @Locked('giving', { returns: 'observable' })
  observable(): Observable<unknown> {
    return this.give as Observable<unknown>;
  }
}

@Controller('files')
class Files {
  static give: unknown;

  @Get('route')
  @UseInterceptors(LockInterceptor.of('files'))
  route(): unknown {
    return Files.give;
  }

  @Get('method')
  @Locked('files')
  async method(): Promise<unknown> {
    return Files.give;
  }
}

const giving = async (): Promise<Giving> => (await startApp({ providers: [Giving] })).get(Giving);

describe('data with methods that are named as in a stream', () => {
  /** As the Option of `effect` has it, and other data on which functions can be called in a row. */
  class Some {
    constructor(readonly value: number) {}

    pipe<T>(fn: (some: this) => T): T {
      return fn(this);
    }
  }

  it.each<[string, object]>([
    ['a method pipe', new Some(7)],
    ['a method getStream', { getStream: () => 'north' }],
    ['events', new EventEmitter()],
  ])('may be given: data with %s', async (_name, data) => {
    const methods = await giving();
    methods.give = data;
    expect(await methods.later()).toBe(data);
  });

  it('may let nobody look at it: it is passed on as it is', async () => {
    const refuse = (): never => {
      throw new Error('nobody may look at this');
    };
    const methods = await giving();
    methods.give = new Proxy({}, { has: refuse, getPrototypeOf: refuse, get: (_data, name) => (name === 'then' ? undefined : refuse()) });
    expect((await methods.later()) === methods.give).toBe(true);
    await expect(methods.atOnce()).rejects.toThrow('returned object instead of a Promise');
    methods.give = new Proxy(() => 'data', { getOwnPropertyDescriptor: refuse });
    expect((await methods.later()) === methods.give).toBe(true);
  });
});

describe('a stream that is refused', () => {
  /** A stream, and whether it was ended. */
  interface Stream {
    readonly given: unknown;
    readonly ended: () => boolean;
  }

  function cancelled(): Stream {
    let ended = false;
    const given = new ReadableStream({ cancel: () => void (ended = true) });
    return { given, ended: () => ended };
  }

  function failing(): Stream {
    let ended = false;
    const destroy = (_error: unknown, done: (error: Error) => void): void => {
      ended = true;
      done(new Error('the stream fails while it is ended'));
    };
    return { given: new Readable({ read: () => undefined, destroy }), ended: () => ended };
  }

  function readElsewhere(): Stream {
    const given = new ReadableStream();
    given.getReader();
    return { given, ended: () => given.locked };
  }

  /** An iterator that is waited for, as that of a subscription: its end is told by return(). */
  function iterator(end: () => Promise<unknown>): Stream {
    let ended = false;
    const given = {
      [Symbol.asyncIterator]: () => given,
      return: () => {
        ended = true;
        return end();
      },
    };
    return { given, ended: () => ended };
  }

  function rendered(): Stream {
    let ended = false;
    return { given: { pipe: () => undefined, abort: () => void (ended = true) }, ended: () => ended };
  }

  const node = (stream: Readable): Stream => ({ given: stream, ended: () => stream.destroyed });
  const file = (stream: Readable): Stream => ({ given: new StreamableFile(stream), ended: () => stream.destroyed });

  it.each<[string, () => Stream]>([
    ['a Node stream', () => node(new PassThrough())],
    ['a file', () => file(new PassThrough())],
    ['a file that is not there', () => node(createReadStream('/no/such/file'))],
    ['a stream that fails at its end', failing],
    ['a web stream', cancelled],
    ['a web stream that is read elsewhere', readElsewhere],
    ['what React renders to', rendered],
    ['an iterator', () => iterator(() => Promise.resolve())],
    ['an iterator that fails at its end', () => iterator(() => Promise.reject(new Error('no end')))],
    ['an iterator that throws at its end', () => iterator(() => { throw new Error('no end'); })],
  ])('is ended, and nothing of it is left unhandled: %s', async (_name, make) => {
    const methods = await giving();
    const calls = [() => methods.later(), () => methods.atOnce(), () => lastValueFrom(methods.observable())];
    for (const call of calls) {
      const stream = make();
      methods.give = stream.given;
      await expect(call()).rejects.toBeInstanceOf(LockUsageError);
      await until(() => stream.ended(), 'the end of the stream');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await expect(methods.later()).rejects.toThrow(methods.give instanceof StreamableFile ? 'await that: await pipeline(' : 'gave a stream');
  });

  it('is a generator, whose work does not begin any more', async () => {
    const methods = await giving();
    let began = false;
    const begin = (): void => void (began = true);
    const generators = [(async function* () { yield begin(); })(), (function* () { yield begin(); })()];
    for (const generator of generators) {
      methods.give = generator;
      await expect(methods.later()).rejects.toThrow(/gave a stream.* let an async generator take the lock itself: await using/);
      expect(await generator.next()).toEqual({ done: true, value: undefined });
    }
    expect(began).toBe(false);
  });

  it.each(Object.entries({
    'a link of a list': { next: () => ({}) },
    'a player who can throw': { next: () => 1, throw: () => 2 },
    'an iterator over data': [1, 2].values(),
    'a list of throws': { throw: () => 2, [Symbol.iterator]: () => [].values() },
  }))('is not what only resembles a generator: %s', async (_name, data) => {
    const methods = await giving();
    methods.give = data;
    expect(await methods.later()).toBe(data);
  });

  it('is ended by the route itself: only some versions of Nest would do it', async () => {
    const app = await startApp({ controllers: [Files] });
    const Route = LockInterceptor.of('files') as unknown as new (interceptor: unknown) => NestInterceptor;
    const route = new Route(app.get(interceptorToken('default')));
    const stream = Readable.from(['long']);
    const answer = await route.intercept(new ExecutionContextHost([{}], Files, Files.prototype.route), { handle: () => of(stream) });
    await expect(lastValueFrom(answer)).rejects.toBeInstanceOf(LockUsageError);
    await until(() => stream.destroyed, 'the end of the stream');
  });

  it('keeps no file open, behind a route and behind a decorator', async () => {
    const server = (await startApp({ controllers: [Files] })).getHttpServer();
    const open: Readable[] = [];
    for (const path of ['/files/route', '/files/method']) {
      const stream = createReadStream('package.json');
      open.push(stream);
      Files.give = new StreamableFile(stream);
      await request(server).get(path).expect(500);
    }
    await until(() => open.every(({ closed }) => closed), 'the end of the files');
  });
});

describe('a function that somebody else calls later', () => {
  const work = async (): Promise<string> => 'done';

  it('is refused, because its work would begin after the lock was given back', async () => {
    const methods = await giving();
    methods.give = work;
    await expect(methods.later()).rejects.toMatchObject({ code: 'LOCK_USAGE', message: expect.stringMatching(/^Giving\.later is locked and gave a function, whose work would begin/) });
    await expect(methods.atOnce()).rejects.toThrow('Giving.atOnce is locked and gave a function');
  });

  it.each<[string, unknown]>([
    ['a class', class Loaded {}],
    ['an object of functions', { stop: work }],
    ['a Proxy that throws when it is asked for what it does not have', new Proxy({ id: 7 }, { get: (of, name) => (name === 'then' || name in of ? Reflect.get(of, name) : fail(name)) })],
  ])('is not %s, which may be given', async (_name, given) => {
    const methods = await giving();
    methods.give = given;
    expect(await methods.later()).toBe(given);
  });

  function fail(name: string | symbol): never {
    throw new Error(`no ${String(name)}`);
  }

  it('is refused on a route behind the interceptor that calls it, and runs under the lock before it', async () => {
    /** As ts-rest does it: the handler gives a function, and an interceptor calls it. */
    class Calls implements NestInterceptor {
      intercept(_context: ExecutionContext, next: CallHandler<() => unknown>): Observable<unknown> {
        return next.handle().pipe(mergeMap(async (made) => made()));
      }
    }
    const TsRest = (): MethodDecorator => applyDecorators(UseInterceptors(Calls));
    @Controller('items')
    class Items {
      constructor(private readonly locks: LockService) {}

      @UseInterceptors(LockInterceptor.of('items'))
      @TsRest()
      @Get('late')
      late(): unknown {
        return async () => ({ key: this.locks.currentLease()?.key });
      }

      @UseInterceptors(LockInterceptor.of('items'))
      @TsRest()
      @Get('several')
      several(): unknown {
        return { get: work, list: work };
      }

      @UseInterceptors(LockInterceptor.of('items'))
      @Get('data')
      data(): unknown {
        return { name: 'tax', stop: work };
      }

      @UseInterceptors(LockInterceptor.of('items'))
      @Get('nothing')
      nothing(): unknown {
        return {};
      }

      @TsRest()
      @UseInterceptors(LockInterceptor.of('items'))
      @Get('held')
      held(): unknown {
        return async () => ({ key: this.locks.currentLease()?.key });
      }
    }
    const app = await startApp({ controllers: [Items], providers: [{ provide: APP_FILTER, useClass: Told }] });
    await request(app.getHttpServer()).get('/items/held').expect(200, { key: 'items' });
    await request(app.getHttpServer()).get('/items/data').expect(200, { name: 'tax' });
    await request(app.getHttpServer()).get('/items/nothing').expect(200, {});
    const several = await request(app.getHttpServer()).get('/items/several').expect(500);
    expect(several.text).toMatch(/^Items\.several: .* locks a route whose handler gave a function/);
    const refused = await request(app.getHttpServer()).get('/items/late').expect(500);
    expect(refused.text).toBe(
      "Items.late: LockInterceptor.of('items') locks a route whose handler gave a function, which an interceptor outside of this one would call after the " +
        'lock was given back. Let this one be the outer one: put it below the decorator of the other (@TsRestHandler), or on the class.',
    );
  });

  @Catch(LockUsageError)
  class Told implements ExceptionFilter {
    catch(error: LockUsageError, host: ArgumentsHost): void {
      host.switchToHttp().getResponse<{ status(code: number): { send(text: string): void } }>().status(500).send(error.message);
    }
  }
});
