import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import request from 'supertest';
import type { App } from 'supertest/types.js';
import { AppModule } from './../src/app.module.js';

describe('AppModule (e2e)', () => {
  let app: INestApplication<App>;

  beforeEach(async () => {
    const moduleFixture = await Test.createTestingModule({ imports: [AppModule] }).compile();
    app = moduleFixture.createNestApplication();
    await app.init();
  });

  it('/orders/1 (POST)', () => request(app.getHttpServer()).post('/orders/1').expect(202).expect('paid 1'));

  it('/busy/1 (POST)', () => request(app.getHttpServer()).post('/busy/1').expect(423));

  afterEach(async () => {
    await app.close();
  });
});
