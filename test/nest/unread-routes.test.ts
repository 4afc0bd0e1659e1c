/** Routes under a lock whose result nobody waits for any more: an interceptor outside of the lock has unsubscribed, as `timeout` does. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Processor, WorkerHost } from '@nestjs/bullmq';
import {
  type CallHandler, Controller, type ExecutionContext, Get, Injectable, type NestInterceptor, SetMetadata, Sse, type Type, UseInterceptors,
} from '@nestjs/common';
import { OnEvent } from '@nestjs/event-emitter';
import { Args, GraphQLModule, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { MessagePattern } from '@nestjs/microservices';
import { Cron, Interval } from '@nestjs/schedule';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { from, NEVER, Observable, Subject, takeUntil } from 'rxjs';
import request from 'supertest';
import { Leader, type Lease, Locked, LockInterceptor, LockModule, LockService } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { Gate, startAlone, startApp } from './application.js';

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
});

const Stock = LockInterceptor.of('stock');
const plain = { why: 'the method is no route, resolver or message handler' };

@Injectable()
class Service {
  @UseInterceptors(Stock)
  async count(): Promise<void> {}
}

@Injectable()
class Timed {
  @Interval(1_000_000)
  @UseInterceptors(Stock)
  async count(): Promise<void> {}
}

@Controller()
class Nightly {
  @Get()
  @UseInterceptors(Stock)
  @Cron('0 3 * * *')
  async count(): Promise<void> {}
}

@Injectable()
class Listener {
  @UseInterceptors(Stock)
  @OnEvent('counted')
  async count(): Promise<void> {}
}

@Controller()
@UseInterceptors(Stock)
class AlsoListens {
  @Get()
  async all(): Promise<void> {}

  @OnEvent('counted')
  async count(): Promise<void> {}
}

@Injectable()
class Ahead {
  @Leader('counting')
  @UseInterceptors(Stock)
  async count(_term: Lease): Promise<void> {}
}

@Processor('stock')
class Jobs extends WorkerHost {
  @UseInterceptors(Stock)
  override async process(): Promise<void> {}
}

@Injectable()
@UseInterceptors(Stock)
class Whole {
  @Interval(1_000_000)
  async count(): Promise<void> {}

  async recount(): Promise<void> {}
}

@Injectable()
class Heir extends Service {}

@Controller()
class OwnHelper {
  @Get()
  async all(): Promise<void> {}

  @UseInterceptors(Stock)
  async count(): Promise<void> {}
}

const called = 'schedules, events and queues call the method directly';
const never: [string, Type, string][] = [
  ["a service's method", Service, plain.why],
  ['an inherited method', Heir, plain.why],
  ['a method of a controller that is no route', OwnHelper, plain.why],
  ['a queue processor', Jobs, plain.why],
  ['@Interval', Timed, called],
  ['@Cron, also on a route', Nightly, called],
  ['@OnEvent', Listener, called], ['@OnEvent in a class whose other methods are served', AlsoListens, called],
  ['@Leader', Ahead, '@Leader calls the method directly'],
  ['a class of which no method is served', Whole, called],
];

describe('LockInterceptor.of where Nest never calls an interceptor', () => {
  it.each(never)('refuses the boot, because nothing would be locked: %s', async (_what, carrier, why) => {
    const name = carrier === Jobs ? 'process' : 'count';
    await expect(startApp({ providers: [carrier] })).rejects.toMatchObject({
      code: 'LOCK_USAGE',
      message: `${carrier.name}.${name} has LockInterceptor.of('stock'), but no interceptor runs there, so nothing would be locked: ${why}. Put @Locked on the method instead.`,
    });
  });

  it('is refused by the lock module that it names', async () => {
    @Injectable()
    class Billing {
      @UseInterceptors(LockInterceptor.of('bill', { instance: 'billing' }))
      async bill(): Promise<void> {}
    }
    const billing = LockModule.forRoot({ name: 'billing', embedded: true });
    const refused = startAlone({ imports: [LockModule.forRoot({ embedded: true }), billing], providers: [Billing] });
    await expect(refused).rejects.toThrow("Billing.bill has LockInterceptor.of('bill'), but no interceptor runs there");
  });
});

describe('LockInterceptor.of boots', () => {
  it('on what Nest serves, beside methods that it does not serve, and where another library may call interceptors', async () => {
    @Controller()
    @UseInterceptors(Stock)
    class Routes {
      @Get()
      @Locked('route')
      @UseInterceptors(Stock)
      async count(): Promise<void> {}

      async recount(): Promise<void> {}
    }
    @Controller()
    class Messages {
      @MessagePattern('count')
      @UseInterceptors(Stock)
      async count(): Promise<void> {}
    }
    @WebSocketGateway(0, { noServer: true })
    class Gateway {
      @SubscribeMessage('count')
      @UseInterceptors(Stock)
      async count(): Promise<void> {}
    }
    @Injectable()
    class Subscriber {
      @SetMetadata('RABBIT_HANDLER', {})
      @UseInterceptors(Stock)
      async count(): Promise<void> {}
    }
    const app = await startApp({ controllers: [Routes, Messages], providers: [Subscriber, { provide: 'gateway', useFactory: () => Object.create(Gateway.prototype) as object }] });
    await request(app.getHttpServer()).get('/').expect(200);
  });
});

describe('LockInterceptor.of on a GraphQL field', () => {
  @Resolver('Item')
  class Items {
    constructor(private readonly locks: LockService) {}

    @Query(() => String)
    item(): object {
      return {};
    }

    @ResolveField()
    @UseInterceptors(LockInterceptor.of('price:<args.id>'))
    async price(@Args('id') _id: string): Promise<string> {
      return String(this.locks.currentLease()?.key);
    }
  }
  const typeDefs = 'type Item { price(id: String): String } type Query { item: Item }';
  const withGraphql = (options: Partial<ApolloDriverConfig>) =>
    startApp({ imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, typeDefs, ...options })], providers: [Items] });

  it('refuses the boot where the GraphQL module calls no interceptors of fields, and names its option', async () => {
    await expect(withGraphql({})).rejects.toMatchObject({
      code: 'LOCK_USAGE',
      message:
        "Items.price has LockInterceptor.of('price:<args.id>'), but no interceptor runs there, so nothing would be locked: Nest calls those of a " +
        "GraphQL field only with fieldResolverEnhancers: ['interceptors']. Give GraphQLModule.forRoot that option, or put @Locked on the method instead.",
    });
  });

  it('locks the field where the GraphQL module calls them', async () => {
    const app = await withGraphql({ fieldResolverEnhancers: ['interceptors'] });
    const answer = await request(app.getHttpServer()).post('/graphql').send({ query: '{ item { price(id: "7") } }' });
    expect(answer.body).toEqual({ data: { item: { price: 'price:7' } } });
  });

  it('boots in a test module without GraphQL, which cannot say', () => expect(startApp({ providers: [Items] })).resolves.toBeDefined());
});
