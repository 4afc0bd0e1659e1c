/** A test that puts an object of its own in the place of LockService: work runs, and what needs a real one says so. */
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, UseInterceptors, type INestApplication, type ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { lastValueFrom, of, type Observable } from 'rxjs';
import request from 'supertest';
import { LockInterceptor, LockModule, LockService, Locked } from '../../lib/index.js';
import { LockBoardModule } from '../../lib/board/index.js';
import { LockTelemetryModule } from '../../lib/telemetry/index.js';

@Injectable()
class Prices {
  @Locked('prices', { returns: 'observable' })
  all(): Observable<number> {
    return of(1, 2);
  }
}

@Controller('cart')
class Cart {
  @Get()
  @UseInterceptors(LockInterceptor.of('cart'))
  show(): string {
    return 'shown';
  }
}

/** An application whose LockService runs the work of every call, and knows no lease. */
async function withDouble(metadata: ModuleMetadata): Promise<INestApplication> {
  const double = { withLock: async (_key: string, _options: object, fn: () => unknown) => fn() };
  const built = Test.createTestingModule({ ...metadata, imports: [LockModule.forRoot({ embedded: true }), ...(metadata.imports ?? [])] });
  const app = (await built.overrideProvider(LockService).useValue(double).compile()).createNestApplication({ logger: false });
  return app.init();
}

describe('A double of LockService', () => {
  it('that gives its work no lease serves locked Observables and routes', async () => {
    const app = await withDouble({ providers: [Prices], controllers: [Cart] });
    expect(await lastValueFrom(app.get(Prices).all())).toBe(2);
    await request(app.getHttpServer()).get('/cart').expect(200, 'shown');
    await app.close();
  });

  it.each([
    ['LockBoardModule', LockBoardModule.forRoot({ guards: [], path: 'locks' })],
    ['LockTelemetryModule', LockTelemetryModule.forRoot()],
  ])('is refused in words by %s, which needs the events', async (name, module) => {
    await expect(withDouble({ imports: [module] })).rejects.toThrow(`${name} needs a LockService, but an object without 'events' stands in its place. Use TestLocks`);
  });
});
