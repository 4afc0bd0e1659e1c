/**
 * Makes the Nest interceptors of LockInterceptor.of, which lock a route by a key from the request.
 */
import { Inject, Injectable, IntrinsicException, type CallHandler, type ExecutionContext, type NestInterceptor, type Type } from '@nestjs/common';
import { tap, type Observable } from 'rxjs';
import { LockUsageError } from '../core/port/errors.js';
import { compileCallKey, type KeyOfCall } from './call-key.js';
import { parseKeyTemplate } from './key-template.js';
import type { AbortSignalLike } from '../core/port/lock-options.js';
import { checkDecorator, lockedCall, lockedMethods, MOCKED, ROUTE_OPTIONS, type LockedCall } from './locked.decorator.js';
import { refuseUnfinished } from './unfinished-results.js';
import { interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import type { LockedOptions } from './locked-method.js';

/** The key of a route: a template whose placeholders are paths into the request, or a function of the ExecutionContext. */
export type RouteKey = string | ((context: ExecutionContext) => string | readonly string[]);

/**
 * Options of {@link LockInterceptor.of}. It has no `returns`, because the interceptor locks every kind of result, and no
 * `onBusy`, because a route has no other answer than that of its handler: a busy lock is a LockTimeoutError.
 */
export interface RouteLockOptions extends Omit<LockedOptions, 'returns' | 'onBusy' | 'signal'> {
  /**
   * Stops the wait for the lock when it aborts; the request fails with `signal.reason`. A function gets the ExecutionContext
   * and returns the signal of this request, or undefined. The wait also ends without this option when the client disconnects.
   * @default none
   */
  signal?: AbortSignalLike | ((context: ExecutionContext) => AbortSignalLike | undefined) | undefined;
}

/** Under this name Nest's `@Sse` leaves its mark on a handler. */
const SSE_METADATA = '__sse__';

/** The end of the message for an interceptor that Nest did not make. */
const MADE_WITH_NEW =
  'but its object was made with new, so it has no lock module. Give the class itself to @UseInterceptors, or provide it as APP_INTERCEPTOR.';

/** Makes the interceptor class that {@link LockInterceptor.of} returns. @throws LockKeyError, LockUsageError */
export function routeLock(key: RouteKey, options: RouteLockOptions): Type<NestInterceptor> {
  const site = `LockInterceptor.of(${typeof key === 'string' ? `'${key}'` : 'a function'})`;
  checkDecorator(options, ROUTE_OPTIONS, site);
  const callAt = (at: string, method?: string): LockedCall =>
    lockedCall({ key, parameters: 1, list: ROUTE_OPTIONS, keyOf: compileRouteKey(key, at) }, { ...options, returns: 'observable' }, at, method);
  const call = callAt(site);
  /** The call of each route that the interceptor stands on, by class and method. */
  const routes = new Map<string, LockedCall>();

  @Injectable()
  class RouteLock implements NestInterceptor {
    constructor(@Inject(interceptorToken(call.instance)) readonly interceptor: LockInterceptor) {
      const found: Partial<LockInterceptor> | undefined = interceptor;
      if (found?.isInterceptor !== true) throw new LockUsageError(`${site} locks a route, ${found === undefined ? MADE_WITH_NEW : MOCKED}`);
    }

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const route = `${context.getClass().name}.${context.getHandler().name}`;
      const named = routes.get(route) ?? callAt(`${route}: ${site}`, route);
      routes.set(route, named);
      const complete = tap((result: unknown) => refuseUnfinished(result, named.site, 'route'));
      const work = (): Observable<unknown> => next.handle().pipe(complete);
      return this.interceptor.observed({ call: named, args: [context], work, gone: clientGone(context), outlivesReader: !givesStream(context) });
    }
  }
  lockedMethods.add(RouteLock.prototype, 'intercept', call);
  return RouteLock;
}

/**
 * True if the route gives one value after another to whoever reads on, as `@Sse` or its return type says. Then an unsubscription ends its
 * work. It does not end that of a handler which answers by a promise.
 */
function givesStream(context: ExecutionContext): boolean {
  const handler = context.getHandler();
  if (Reflect.hasMetadata(SSE_METADATA, handler)) return true;
  const type = Reflect.getMetadata('design:returntype', context.getClass().prototype, handler.name) as { readonly prototype?: object } | undefined;
  return type?.prototype !== undefined && 'subscribe' in type.prototype;
}

/** The only argument of the calls is the ExecutionContext. */
function compileRouteKey(key: RouteKey, site: string): KeyOfCall {
  if (typeof key !== 'string') return compileCallKey(key, site);
  const template = parseKeyTemplate(key, site, 'request');
  return ([context]) => template(requestOf(context as ExecutionContext));
}

/**
 * The object that placeholders of a route's key are paths into: for HTTP the request, for GraphQL the request with `args`
 * added, for a WebSocket message `client` and `data`, for a message of a microservice `context` and `data`.
 */
function requestOf(context: ExecutionContext): object {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getRequest<object>();
    case 'graphql': {
      const [, args, shared] = context.getArgs<[unknown, unknown, { readonly req?: object } | undefined]>();
      return Object.create(shared?.req ?? {}, { args: { value: args } });
    }
    case 'ws':
      return { client: context.switchToWs().getClient(), data: context.switchToWs().getData() };
    default:
      return { context: context.switchToRpc().getContext(), data: context.switchToRpc().getData() };
  }
}

// Makes an AbortSignal that aborts when the client of a request disconnects before the response was complete, so that the
// request stops waiting for its lock. It works with the responses of Express and of Fastify.

/**
 * The reason of the signal, with which the wait for the lock rejects. It is an IntrinsicException, which Nest does not log: a
 * client that disconnects is not a defect.
 */
class ClientGoneError extends IntrinsicException {
  override readonly name = 'AbortError';
}

/** The part of Node's http.ServerResponse that is used here. */
interface RawResponse {
  readonly destroyed?: boolean;
  readonly writableFinished?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** What Express or Fastify gives as the response, or a test in its place. */
type Reply = Partial<RawResponse> & { readonly raw?: Partial<RawResponse> };

/** One signal for each response, because the locked resolvers of one GraphQL query share a response: so one listener serves all. */
const signals = new WeakMap<object, AbortSignal>();

/**
 * The signal of the request in `context`; undefined for transports that have no HTTP response. Node's response is the response of Express
 * itself, and the `raw` of Fastify's reply.
 */
function clientGone(context: ExecutionContext): AbortSignal | undefined {
  const reply = responseOf(context);
  const response = reply?.raw ?? reply;
  if (typeof response?.once !== 'function') return undefined;
  let signal = signals.get(response);
  if (signal === undefined) signals.set(response, (signal = signalOf(response as RawResponse)));
  return signal;
}

function signalOf(response: RawResponse): AbortSignal {
  const controller = new AbortController();
  const gone = (): void =>
    controller.abort(new ClientGoneError('The client has gone while its request waited for a lock. The handler did not run.'));
  if (response.destroyed) gone();
  // Node emits 'close' after a complete response as well.
  else response.once('close', () => response.writableFinished || gone());
  return controller.signal;
}

/** The HTTP response. In GraphQL it is in the context of the resolvers: Apollo on Express names it `res`, Mercurius `reply`. */
function responseOf(context: ExecutionContext): Reply | undefined {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getResponse<Reply>();
    case 'graphql': {
      const shared = context.getArgs<[unknown, unknown, { readonly res?: Reply; readonly reply?: Reply } | undefined]>()[2];
      return shared?.res ?? shared?.reply;
    }
    default:
      return undefined;
  }
}
