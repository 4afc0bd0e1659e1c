import { describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Controller, Get, Injectable, SetMetadata, UseInterceptors, type Type } from '@nestjs/common';
import { OnEvent } from '@nestjs/event-emitter';
import { Args, GraphQLModule, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { MessagePattern } from '@nestjs/microservices';
import { Cron, Interval } from '@nestjs/schedule';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Processor, WorkerHost } from '@nestjs/bullmq';
import request from 'supertest';
import { Leader, Locked, LockInterceptor, LockModule, LockService, type Lease } from '../../lib/index.js';
import { startAlone, startApp } from './application.js';

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

const never: [string, Type, string][] = [
  ["a service's method", Service, plain.why],
  ['an inherited method', Heir, plain.why],
  ['a method of a controller that is no route', OwnHelper, plain.why],
  ['a queue processor', Jobs, plain.why],
  ['@Interval', Timed, '@Interval calls the method directly'],
  ['@Cron, also on a route', Nightly, '@Cron calls the method directly'],
  ['@OnEvent', Listener, '@OnEvent calls the method directly'],
  ['@Leader', Ahead, '@Leader calls the method directly'],
  ['a class of which no method is served', Whole, '@Interval calls the method directly'],
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

  it('boots in a test module without GraphQL, which cannot say', async () => {
    await expect(startApp({ providers: [Items] })).resolves.toBeDefined();
  });
});
