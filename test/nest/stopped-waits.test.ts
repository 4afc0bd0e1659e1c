/** What ends the wait of a call from outside: its signal, and the client of a request that goes away. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Injectable, Logger, UseInterceptors, type ExecutionContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { EventEmitter, getEventListeners } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { lastValueFrom, NEVER, of, type Observable } from 'rxjs';
import { Locked, LockInterceptor, LockService, LockTimeoutError, LockUsageError, type LockEvent, type RouteLockOptions } from '../../lib/index.js';
import { interceptorToken } from '../../lib/nest/lock-names.js';
import { Gate, startApp, until } from './application.js';

afterEach(() => void jest.restoreAllMocks());

function stillBusy(): never {
  throw new LockTimeoutError("Lock 'other' was still busy.", { key: 'other', waitMs: 10 });
}

@Injectable()
class Orders {
  ran = 0;

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop })
  async pay(_id: string, _stop?: AbortSignal): Promise<string> {
    this.ran += 1;
    return 'paid';
  }

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop, onBusy: () => 'busy' })
  async tryToPay(_id: string, _stop?: AbortSignal): Promise<string> {
    return 'paid';
  }

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop, onBusy: 'skip' })
  async skipPaying(_id: string, _stop?: AbortSignal): Promise<string | undefined> {
    return 'paid';
  }

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop, onBusy: 'skip', waitMs: 10_000 })
  async payOrSkip(_id: string, _stop?: AbortSignal): Promise<string | undefined> {
    return 'paid';
  }

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop, onBusy: 'skip', waitMs: 10_000, returns: 'observable' })
  watchUnlessBusy(_id: string, _stop?: AbortSignal): Observable<string> {
    return of('seen');
  }

  @Locked('order', { signal: stillBusy, onBusy: 'skip' })
  async paySignalless(): Promise<string | undefined> {
    return 'paid';
  }

  @Locked('order', { signal: stillBusy, onBusy: 'skip', returns: 'observable' })
  watchSignalless(): Observable<string> {
    return of('seen');
  }

  @Locked('order:<0>', { signal: (_id: string, stop?: AbortSignal) => stop, returns: 'observable' })
  watch(_id: string, _stop?: AbortSignal): Observable<string> {
    this.ran += 1;
    return of('seen');
  }
}

async function start() {
  const app = await startApp({ providers: [Orders] });
  const locks = app.get(LockService);
  return { orders: app.get(Orders), locks, waiting: waitingIn(locks), interceptor: app.get<LockInterceptor>(interceptorToken('default')) };
}

/** How many calls wait now. Those of this process that wait for each other are not in the store. */
function waitingIn(locks: LockService): () => number {
  let waiting = 0;
  const changes: Partial<Record<LockEvent['type'], number>> = { waiting: 1, cancelled: -1 };
  locks.events.subscribe(({ type }) => (waiting += changes[type] ?? 0));
  return () => waiting;
}

describe('a signal that a decorator makes of the arguments', () => {
  it.each<[string, (orders: Orders, stop: AbortSignal) => Promise<unknown>]>([
    ['promise', (orders, stop) => orders.pay('1', stop)],
    ['Observable', (orders, stop) => lastValueFrom(orders.watch('1', stop))],
  ])('stops the wait of its own call (a %s), and of no other', async (_name, call) => {
    const { orders, locks } = await start();
    const held = await locks.acquire('order:1');
    const [mine, other] = [new AbortController(), new AbortController()];
    const stopped = expect(call(orders, mine.signal)).rejects.toThrow('the user has left');
    const going = call(orders, other.signal);
    mine.abort(new Error('the user has left'));
    await stopped;
    expect(orders.ran).toBe(0);
    await held.release();
    await going;
    expect(orders.ran).toBe(1);
  });

  it('that has aborted before the call lets nothing begin', async () => {
    const { orders, locks } = await start();
    const gone = AbortSignal.abort(new Error('gone'));
    await expect(orders.pay('1', gone)).rejects.toThrow('gone');
    await expect(orders.tryToPay('1', gone)).rejects.toThrow('gone');
    await expect(orders.tryToPay('1', AbortSignal.abort(null))).rejects.toBeNull();
    await expect(lastValueFrom(orders.watch('1', gone))).rejects.toThrow('gone');
    expect([orders.ran, await locks.isLocked('order:1')]).toEqual([0, false]);
  });

  it('ends the call even if its reason is the LockTimeoutError of another call: the lock is not busy, so no fallback runs and no stream is empty', async () => {
    const { orders, locks, waiting } = await start();
    const held = await locks.acquire('order:1');
    const reason = new LockTimeoutError("Lock 'other' was still busy.", { key: 'other', waitMs: 10 });
    const before = AbortSignal.abort(reason);
    for (const call of [orders.tryToPay('1', before), orders.skipPaying('1', before), lastValueFrom(orders.watchUnlessBusy('1', before))]) {
      await expect(call).rejects.toBe(reason);
    }
    const during = new AbortController();
    const calls = [orders.payOrSkip('1', during.signal), lastValueFrom(orders.watchUnlessBusy('1', during.signal))];
    const ended = Promise.all(calls.map((call) => expect(call).rejects.toBe(reason)));
    await until(() => waiting() === 2, 'the waits');
    during.abort(reason);
    await ended;
    await held.release();
  });

  it('or its function may throw a LockTimeoutError, which does not make the lock busy', async () => {
    const { orders } = await start();
    await expect(orders.paySignalless()).rejects.toThrow("Lock 'other' was still busy.");
    await expect(lastValueFrom(orders.watchSignalless())).rejects.toThrow("Lock 'other' was still busy.");
  });

  it('that is no signal is an error that names the method', async () => {
    const { orders } = await start();
    const message = 'Orders.pay: expected its signal function to give an AbortSignal or undefined, got 5000.';
    await expect(orders.pay('1', 5_000 as never)).rejects.toThrow(new LockUsageError(message));
    await expect(lastValueFrom(orders.watch('1', null as never))).rejects.toThrow('Orders.watch: expected its signal function');
  });
});

describe('a signal that outlives the Observables whose waits it may stop', () => {
  it('keeps nothing of them', async () => {
    const { orders } = await start();
    const { signal } = new AbortController();
    const combined = jest.spyOn(AbortSignal, 'any');
    const reading = await Promise.all([1, 2, 3].map((id) => lastValueFrom(orders.watch(String(id), signal))));
    expect(reading).toEqual(['seen', 'seen', 'seen']);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    // Node keeps a reference for each signal that was ever combined with this one.
    expect(combined).not.toHaveBeenCalled();
  });
});

describe('a request whose client has gone', () => {
  @Controller()
  class Carts {
    ran = 0;
    readonly gate = new Gate();
    lost: boolean | undefined;

    constructor(readonly locks: LockService) {}

    @Get('waiting')
    @UseInterceptors(LockInterceptor.of('cart'))
    waiting(): string {
      this.ran += 1;
      return 'shown';
    }

    @Get('running')
    @UseInterceptors(LockInterceptor.of('cart'))
    async running(): Promise<string> {
      this.ran += 1;
      await this.gate.opened;
      this.lost = this.locks.currentLease()?.signal.aborted;
      return 'shown';
    }
  }

  async function listening() {
    const app = await startApp({ controllers: [Carts] });
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    const asked = (path: string) => http.get({ port, host: '127.0.0.1', path, agent: false }).on('error', () => undefined);
    const locks = app.get(LockService);
    return { asked, carts: app.get(Carts), locks, waiting: waitingIn(locks) };
  }

  it('stops waiting, and writes no line in the log', async () => {
    const errors = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const { asked, carts, locks, waiting } = await listening();
    const held = await locks.acquire('cart');
    const client = asked('/waiting');
    await until(() => waiting() === 1, 'the wait');
    client.destroy();
    await until(() => waiting() === 0, 'the end of the wait');
    await held.release();
    const next = await locks.acquire('cart');
    await next.release();
    expect([carts.ran, errors.mock.calls]).toEqual([0, []]);
  });

  it('does not disturb its handler once that runs: the lock is held to its end', async () => {
    const { asked, carts, locks } = await listening();
    const events: LockEvent['type'][] = [];
    locks.events.subscribe(({ type }) => events.push(type));
    const client = asked('/running');
    await until(() => carts.ran === 1, 'the handler');
    await new Promise((closed) => client.on('close', closed).destroy());
    expect(await locks.tryAcquire('cart')).toBeNull();
    carts.gate.release();
    await until(async () => !(await locks.isLocked('cart')), 'the release');
    expect(carts.lost).toBe(false);
    expect(events).toEqual(['granted', 'busy', 'released']);
  });

  /** A route around a handler that never answers, in the context that a platform would give it. */
  function routed(interceptor: LockInterceptor, type: string, args: unknown[], options?: RouteLockOptions): Observable<unknown> {
    const Route = LockInterceptor.of(() => 'cart', options) as unknown as new (by: LockInterceptor) => InstanceType<ReturnType<typeof LockInterceptor.of>>;
    const context = new ExecutionContextHost(args, Carts, Carts.prototype.waiting);
    context.setType(type);
    return new Route(interceptor).intercept(context, { handle: () => NEVER }) as Observable<unknown>;
  }

  const response = () => Object.assign(new EventEmitter(), { destroyed: false, writableFinished: false });

  it.each<[string, string, (raw: object) => unknown[]]>([
    ['Express', 'http', (raw) => [{}, raw]],
    ['Fastify', 'http', (raw) => [{}, { raw, sent: false }]],
    ['GraphQL on Express', 'graphql', (raw) => [{}, {}, { req: {}, res: raw }]],
    ['GraphQL on Fastify', 'graphql', (raw) => [{}, {}, { reply: { raw } }]],
  ])('is told by the response of %s', async (_name, type, args) => {
    const { interceptor, locks, waiting } = await start();
    await using _held = await locks.acquire('cart');
    const raw = response();
    const gone = expect(lastValueFrom(routed(interceptor, type, args(raw)))).rejects.toMatchObject({
      name: 'AbortError',
      message: 'The client has gone while its request waited for a lock. The handler did not run.',
    });
    await until(() => waiting() === 1, 'the wait');
    raw.emit('close');
    await gone;
    expect(waiting()).toBe(0);
    expect(raw.listenerCount('close')).toBe(0);
  });

  it('before its turn came does not begin', async () => {
    const { interceptor, locks } = await start();
    const raw = Object.assign(response(), { destroyed: true });
    await expect(lastValueFrom(routed(interceptor, 'http', [{}, raw]))).rejects.toThrow('The client has gone');
    expect(await locks.isLocked('cart')).toBe(false);
  });

  it('shares one listener among all locks of one response', async () => {
    const { interceptor, locks } = await start();
    await using _held = await locks.acquire('cart');
    const raw = response();
    const fields = Array.from({ length: 20 }, () => routed(interceptor, 'graphql', [{}, {}, { res: raw }]).subscribe({ error: () => undefined }));
    expect(raw.listenerCount('close')).toBe(1);
    for (const field of fields) field.unsubscribe();
  });

  it('is waited for like others where there is no response to look at', async () => {
    const { interceptor, locks, waiting } = await start();
    const held = await locks.acquire('cart');
    const nothing: [string, unknown[]][] = [
      ['rpc', [{}, {}]],
      ['graphql', [{}, {}]],
      ['graphql', [{}, {}, { req: {} }]],
      ...[undefined, null, 'a text', {}, { once: true }, { raw: null }, { raw: 'a text' }, { raw: {} }].map((raw): [string, unknown[]] => ['http', [{}, raw]]),
    ];
    const stops = nothing.map(([type, args]) => routed(interceptor, type, args).subscribe({ error: () => undefined }));
    await until(() => waiting() === nothing.length, 'all waits');
    for (const reading of stops) reading.unsubscribe();
    await held.release();
  });

  it('is not one whose response is complete: a wait that goes on after it is not ended', async () => {
    const { interceptor, locks, waiting } = await start();
    await using _held = await locks.acquire('cart');
    const raw = Object.assign(response(), { writableFinished: true });
    const failed = jest.fn();
    const reading = routed(interceptor, 'http', [{}, raw]).subscribe({ error: failed });
    await until(() => waiting() === 1, 'the wait');
    raw.emit('close');
    await new Promise(setImmediate);
    expect([waiting(), failed.mock.calls]).toEqual([1, []]);
    reading.unsubscribe();
  });

  it('or whose route has a signal of its own stops with the first of both', async () => {
    const { interceptor, locks } = await start();
    await using _held = await locks.acquire('cart');
    const own = new AbortController();
    const signal = (context: ExecutionContext) => (context.getArgByIndex(0) === 'mine' ? own.signal : undefined);
    const raw = response();
    const mine = expect(lastValueFrom(routed(interceptor, 'http', ['mine', raw], { signal }))).rejects.toThrow('enough');
    const other = expect(lastValueFrom(routed(interceptor, 'http', ['other', raw], { signal }))).rejects.toThrow('has gone');
    own.abort(new Error('enough'));
    await mine;
    raw.emit('close');
    await other;
  });
});
