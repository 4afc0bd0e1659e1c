// Boots an application context on clients of node-redis that it made itself, locks, writes with the fence by its own client, and prints
// what it saw. KIND is `client`, `cluster`, `sentinel` or `redlock`; TARGET is where that is, as JSON. With FAILOVER it locks until the
// file of that name is there, and then three times more.
require('reflect-metadata');
const { existsSync, readFileSync } = require('node:fs');
const { Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { LockModule, LockService, writeFenced } = require('nestjs-holdfast');
const { createClient, createCluster, createSentinel } = require('redis');

const { version } = JSON.parse(readFileSync('node_modules/redis/package.json', 'utf8'));
const { KIND: kind, FAILOVER: failover } = process.env;
const { urls, sentinels, name } = JSON.parse(process.env.TARGET);
const CLIENTS = {
  client: () => [createClient({ url: urls[0] })],
  cluster: () => [createCluster({ rootNodes: urls.map((url) => ({ url })) })],
  sentinel: () => [createSentinel({ name, sentinelRootNodes: sentinels })],
  redlock: () => urls.map((url) => createClient({ url })),
};
const clients = CLIENTS[kind]();
for (const client of clients) client.on('error', () => {});
const [own] = clients;

class AppModule {}
// New masters of a Redlock vote after the longest lease. A failover may lose a release: then the lock is free when its lease ends, while a
// call still waits.
const options = kind === 'redlock' ? { redis: clients, leaseMs: 800, maxLeaseMs: 1_000 } : { redis: own, leaseMs: 3_000 };
Module({ imports: [LockModule.forRoot(options)] })(AppModule);

async function main() {
  // One of version 5 is asked where its master is.
  const connectsFirst = kind === 'sentinel' && version.startsWith('5.');
  if (connectsFirst) await own.connect();
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  const locks = app.get(LockService);
  const fences = [];
  const turn = () => locks.withLock('order:1', async ({ fence }) => void fences.push(fence));
  await Promise.all(Array.from({ length: 10 }, turn));
  const wereUsed = clients.some(({ isOpen }) => isOpen);
  if (!connectsFirst) await own.connect();
  const [first, last] = [fences[0], fences.at(-1)];
  const writes = [await writeFenced(own, 'account:1', last, { balance: 2 }), await writeFenced(own, 'account:1', first, { balance: 1 })];
  const balance = await own.hGet('account:1', 'balance');
  if (failover !== undefined) await lockAcross(turn);
  await app.close();
  const stillOpen = own.isOpen;
  own.destroy();
  const fencesRise = fences.length >= 10 && fences.every((fence, n) => n === 0 || fence > fences[n - 1]);
  console.log(JSON.stringify({ version, wereUsed: wereUsed && !connectsFirst, stillOpen, fencesRise, writes, balance }));
}

async function lockAcross(turn) {
  console.log('up');
  for (let left = 3; left > 0; ) {
    await turn().then(
      () => existsSync(failover) && (left -= 1),
      (error) => {
        if (error.code !== 'LOCK_STORE' && error.code !== 'LOCK_LOST') throw error;
      },
    );
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
