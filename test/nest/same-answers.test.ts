/**
 * Whatever ends a request, its client is answered as if there were no lock: one table of routes, on controllers that
 * differ in their locks only.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  BadGatewayException, Body, Catch, ConflictException, Controller, Header, HttpCode, Inject, Injectable, Param, ParseIntPipe, Post, Redirect, Res,
  UnauthorizedException, UseFilters, UseGuards, UseInterceptors, UsePipes, ValidationPipe, applyDecorators, type ArgumentsHost, type CallHandler,
  type CanActivate, type ExceptionFilter, type ExecutionContext, type INestApplication, type NestInterceptor, type PipeTransform, type Type,
} from '@nestjs/common';
import { IsInt } from 'class-validator';
import { catchError, from, throwError, type Observable } from 'rxjs';
import request from 'supertest';
import { LockModule, LockService, Locked } from '../../lib/index.js';
import { created } from './application.js';

@Injectable()
class Deny implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Injectable()
class AskForLogin implements CanActivate {
  canActivate(): boolean {
    throw new UnauthorizedException({ reason: 'log in first' });
  }
}

class Teapot extends Error {}

@Catch(Teapot)
class TeapotFilter implements ExceptionFilter {
  catch({ message }: Teapot, host: ArgumentsHost): void {
    host.switchToHttp().getResponse().status(418).json({ short: message });
  }
}

/** Maps what comes out of the handler, as the lock passes it on. */
class ToBadGateway implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(catchError((error: Error) => throwError(() => new BadGatewayException(error.name))));
  }
}

class BrokenPipe implements PipeTransform {
  transform(): never {
    throw new RangeError('of the pipe');
  }
}

class Amount {
  @IsInt()
  amount!: number;
}

interface Route {
  readonly says: string;
  readonly status: number;
  readonly decorators?: readonly MethodDecorator[];
  /** What is sent; sound by default. */
  readonly id?: string;
  readonly body?: object;
  readonly work?: () => unknown;
  /** The request gets as far as the method, so with a lock it is inside. */
  readonly reaches?: true;
}

const failing = (error: unknown) => async () => {
  throw error;
};

const routes: readonly Route[] = [
  { says: 'a result', status: 201, work: async () => ({ paid: true }), reaches: true },
  { says: 'no result', status: 201, work: async () => undefined, reaches: true },
  { says: 'a code and a header', status: 202, decorators: [HttpCode(202), Header('x-shop', 'open')], work: async () => 'later', reaches: true },
  { says: 'a redirection', status: 307, decorators: [Redirect('/elsewhere', 307)], work: async () => ({}), reaches: true },
  { says: 'a guard that denies', status: 403, decorators: [UseGuards(Deny)] },
  { says: 'a guard that throws', status: 401, decorators: [UseGuards(AskForLogin)] },
  { says: 'a pipe of a parameter that refuses', status: 400, id: 'seven' },
  { says: 'a pipe that validates and refuses', status: 400, decorators: [UsePipes(new ValidationPipe())], body: { amount: 'much' } },
  { says: 'a pipe that fails', status: 500, decorators: [UsePipes(BrokenPipe)] },
  { says: 'a filter that maps', status: 418, decorators: [UseFilters(TeapotFilter)], work: failing(new Teapot('and stout')), reaches: true },
  { says: 'an interceptor that maps', status: 502, decorators: [UseInterceptors(ToBadGateway)], work: failing(new Teapot()), reaches: true },
  { says: 'an HTTP exception of the method', status: 409, work: failing(new ConflictException({ reason: 'no money' })), reaches: true },
  { says: 'an error of the method', status: 500, work: failing(new RangeError('no money')), reaches: true },
  { says: 'something thrown that is no error', status: 500, work: failing('no money'), reaches: true },
  {
    says: 'an exception thrown before there is a promise',
    status: 409,
    work: () => {
      throw new ConflictException('at once');
    },
    reaches: true,
  },
];

const KEY = 'shop:<0>';
const none: MethodDecorator = () => undefined;
const promise = Locked(KEY) as MethodDecorator;
const observable = Locked(KEY, { returns: 'observable' }) as MethodDecorator;
type Returned = 'promise' | 'observable';

/** What one controller has seen of the lock of the last request. */
class Sight {
  key: string | undefined;
  entered = false;
}

function controllerOf(route: Route, path: string, returned: Returned, above: MethodDecorator, below: MethodDecorator): Type {
  @Controller(path)
  class Shop {
    constructor(@Inject(LockService) private readonly locks: LockService, @Inject(Sight) private readonly sight: Sight) {}

    @above
    @Post(':id')
    @applyDecorators(...(route.decorators ?? []))
    @below
    pay(@Param('id', ParseIntPipe) _id: number, @Body() _body: Amount, @Res({ passthrough: true }) _response: object): unknown {
      Object.assign(this.sight, { entered: true, key: this.locks.currentLease()?.key });
      const result = route.work?.();
      return returned === 'promise' ? result : from(result as Promise<unknown>);
    }
  }
  return Shop;
}

const locked: [string, Returned, MethodDecorator, MethodDecorator][] = [
  ['above', 'promise', promise, none],
  ['below', 'promise', none, promise],
  ['above', 'observable', observable, none],
  ['below', 'observable', none, observable],
];
const unlocked = (['promise', 'observable'] as const).map((returned) => ['without', returned, none, none] as const);

let app: INestApplication;
beforeAll(async () => {
  const controllers = routes.flatMap((route, turn) =>
    [...locked, ...unlocked].map(([order, returned, above, below]) => controllerOf(route, `${turn}/${order}/${returned}`, returned, above, below)),
  );
  app = await created({ imports: [LockModule.forRoot({ embedded: true })], controllers, providers: [Sight] });
  await app.listen(0, '127.0.0.1');
});
afterAll(() => app.close());

async function answerOf(turn: number, { id = '7', body = { amount: 1 } }: Route, order: string, returned: Returned) {
  const sight = Object.assign(app.get(Sight), { entered: false, key: undefined });
  const { status, text, headers } = await request(app.getHttpServer()).post(`/${turn}/${order}/${returned}/${id}`).send(body);
  const { 'content-type': type, location, 'x-shop': shop } = headers;
  return { answer: { status, text, type, location, shop }, entered: sight.entered, key: sight.key };
}

const orders = locked.map(([order, returned]) => [order, returned] as const);

describe.each(orders)('a route with its lock %s the other decorators that returns its %s', (order, returned) => {
  it.each(routes.map((route, turn) => ({ ...route, turn })))('answers as without the lock: $says', async ({ turn, ...route }) => {
    const without = await answerOf(turn, route, 'without', returned);
    const within = await answerOf(turn, route, order, returned);
    expect(within.answer).toEqual(without.answer);
    expect(within.answer.status).toBe(route.status);
    const reaches = route.reaches ?? false;
    expect([without.entered, within.entered, within.key]).toEqual([reaches, reaches, reaches ? 'shop:7' : undefined]);
    expect(await app.get(LockService).isLocked('shop:7')).toBe(false);
  });
});
