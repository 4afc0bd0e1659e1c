/** Boots over HTTP, pays one order many times at once, prints what was seen as JSON, and ends by itself. */
import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { NestFactory } from '@nestjs/core';
import { LockTimeoutError } from 'nestjs-holdfast';
import { AppModule } from './app.module';
import { OrderService } from './order.service';

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['error'] });
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const ask = (path: string, method = 'POST') => fetch(`http://127.0.0.1:${port}/${path}`, { method });

  const paid = await Promise.all(Array.from({ length: 20 }, () => ask('orders/1')));
  const busy = await ask('busy/1');
  const health = (await (await ask('health', 'GET')).json()) as { status: string };
  const orders = app.get(OrderService);
  await app.close();

  // As a string, because the compiler would turn this import into a require.
  const imported = (await eval("import('nestjs-holdfast')").catch(() => undefined)) as { LockTimeoutError: unknown } | undefined;
  console.log(
    JSON.stringify({
      paid: paid.map(({ status }) => status).filter((status) => status === 202).length,
      atOnce: orders.atOnce,
      fencesRise: orders.fencesRise(20),
      busy: busy.status,
      health: health.status,
      oneCopy: imported === undefined ? 'not installed here' : imported.LockTimeoutError === LockTimeoutError,
    }),
  );
}

void main();
