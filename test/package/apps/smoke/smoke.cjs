// Boots an application context with a decorated service, on the embedded store or on REDIS_URL, and prints what it ran on.
require('reflect-metadata');
const { existsSync, readFileSync } = require('node:fs');
const { Injectable, Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const holdfast = require('nestjs-holdfast');
// Not by require: from Nest 12 on packages do not give away their package.json.
const versionOf = (name) => existsSync(`node_modules/${name}`) && JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')).version;

class OrderService {
  fences = [];
  running = 0;
  atOnce = 0;

  constructor(locks) {
    this.locks = locks;
  }

  async pay(id) {
    this.running += 1;
    this.atOnce = Math.max(this.atOnce, this.running);
    await new Promise((resolve) => setTimeout(resolve, 2));
    this.fences.push(this.locks.assertLocked(`order:${id}`).fence);
    this.running -= 1;
  }
}
// What a compiler makes of the decorators.
const pay = Object.getOwnPropertyDescriptor(OrderService.prototype, 'pay');
Object.defineProperty(OrderService.prototype, 'pay', holdfast.Locked('order:<0>')(OrderService.prototype, 'pay', pay) ?? pay);
Reflect.defineMetadata('design:paramtypes', [holdfast.LockService], OrderService);
Injectable()(OrderService);

class AppModule {}
const { REDIS_URL: redis, REDIS_CLIENT: client } = process.env;
Module({ imports: [holdfast.LockModule.forRoot(redis === undefined ? { embedded: true } : { redis, client })], providers: [OrderService] })(AppModule);

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'], abortOnError: false });
  const orders = app.get(OrderService);
  await Promise.all(Array.from({ length: 10 }, () => orders.pay('1')));
  const lease = await app.get(holdfast.LockService).acquire('order:2');
  await lease.renew();
  const released = await lease.release();
  await app.close();
  const imported = await import('nestjs-holdfast');
  console.log(
    JSON.stringify({
      node: process.versions.node,
      nest: versionOf('@nestjs/core'),
      ioredis: versionOf('ioredis') || undefined,
      redis: versionOf('redis') || undefined,
      atOnce: orders.atOnce,
      fencesRise: orders.fences.length === 10 && orders.fences.every((fence, n) => n === 0 || fence > orders.fences[n - 1]),
      released,
      oneCopy: imported.LockTimeoutError === holdfast.LockTimeoutError,
    }),
  );
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
