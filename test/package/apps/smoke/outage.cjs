// Boots an application context on REDIS_URL, and says so. With `hold` it then asks for a lock again and again, and ends when
// that was refused and granted again.
require('reflect-metadata');
const { Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { LockModule, LockService } = require('nestjs-holdfast');

class AppModule {}
const { REDIS_URL: redis, REDIS_CLIENT: client, BOOT_TIMEOUT_MS } = process.env;
Module({ imports: [LockModule.forRoot({ redis, client, bootTimeoutMs: Number(BOOT_TIMEOUT_MS) })] })(AppModule);

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  console.log('up');
  if (process.argv[2] === 'hold') await untilServedAgain(app.get(LockService));
  await app.close();
}

async function untilServedAgain(locks) {
  let refused = false;
  for (;;) {
    try {
      const lease = await locks.tryAcquire('order:1');
      await lease?.release();
      if (refused && lease) return console.log('served again');
    } catch (error) {
      if (error.code !== 'LOCK_STORE') throw error;
      if (!refused) console.log('refused');
      refused = true;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
