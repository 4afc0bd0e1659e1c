import { expect, it } from '@jest/globals';
import { Controller, Get } from '@nestjs/common';
import { once } from 'node:events';
import request from 'supertest';
import { Locked, LockModule, LockService } from '../../lib/index.js';
import { startApp, until } from './application.js';

it('a handler that goes on beyond the grace is told while the server still drains, so the application can close', async () => {
  @Controller()
  class Endless {
    constructor(readonly locks: LockService) {}

    @Get('endless')
    @Locked('endless', { onLost: 'ignore' })
    async run(): Promise<string> {
      const signal = this.locks.currentLease()?.signal;
      if (signal) await once(signal, 'abort');
      return 'told';
    }
  }
  const app = await startApp({ controllers: [Endless] }, LockModule.forRoot({ embedded: true, shutdownGraceMs: 50 }));
  await app.listen(0, '127.0.0.1');
  const answer = request(app.getHttpServer()).get('/endless').expect(200, 'told');
  const answered = answer.then(() => 'answered');
  await until(() => app.get(LockService).isLocked('endless'), 'the lock');
  await app.close();
  expect(await answered).toBe('answered');
});
