/** Calls that ask for replicas in a user's unit test with `nestjs-holdfast/testing`: every number of replicas counts as acknowledged. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable, type DynamicModule } from '@nestjs/common';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { Leader, Locked, LockModule, LockService, LockTimeoutError, type Lease } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';

const unreachable = 'redis://127.0.0.1:1';

@Injectable()
class PaymentService {
  leads = 0;

  constructor(readonly locks: LockService) {}

  @Locked('payment:<0>', { minReplicas: 2 })
  async pay(id: string): Promise<string> {
    return `paid ${id}`;
  }

  @Locked('refund:<0>')
  async refund(id: string): Promise<string> {
    return `refunded ${id}`;
  }

  @Leader('settlement', { minReplicas: 1 })
  async settle({ signal }: Lease): Promise<void> {
    this.leads += 1;
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  }
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(builder: TestingModuleBuilder): Promise<PaymentService> {
  const module = await builder.compile();
  await module.init();
  closing.push(() => module.close());
  return module.get(PaymentService);
}

const importing = (module: DynamicModule): TestingModuleBuilder => Test.createTestingModule({ imports: [module], providers: [PaymentService] });

describe('an application whose locks need replicas', () => {
  it('boots with TestLocks in place of its Redis, and its locked methods and calls are served', async () => {
    const test = new TestLocks();
    const payments = await start(test.replaceIn(importing(LockModule.forRoot({ redis: unreachable, minReplicas: 1 }))));
    expect(await payments.pay('1')).toBe('paid 1');
    expect(await payments.refund('1')).toBe('refunded 1');
    expect(await payments.locks.withLock('report', async () => 'sent')).toBe('sent');
    await test.advance(100);
    expect(payments.leads).toBe(1);
  });

  it('has its locks from asModule, whose own default may ask for replicas too', async () => {
    const test = new TestLocks({ minReplicas: 1 });
    const payments = await start(importing(test.asModule()));
    expect(await payments.pay('1')).toBe('paid 1');
    await test.busy('refund:1');
    await expect(payments.refund('1')).rejects.toThrow(LockTimeoutError);
    await test.free('refund:1');
    expect(await payments.refund('1')).toBe('refunded 1');
  });
});

describe('a call that asks for replicas', () => {
  it('waits for its turn, and its lease is renewed', async () => {
    const test = new TestLocks();
    const first = await test.locks.acquire('payment:1', { minReplicas: 2 });
    const waiting = test.locks.acquire('payment:1', { minReplicas: 2, waitMs: 300_000 });
    await test.advance(120_000);
    expect(first.signal.aborted).toBe(false);
    expect(await first.release()).toBe('released');
    const second = await waiting;
    await test.advance(120_000);
    expect(await second.release()).toBe('released');
  });

  it('adopts a ticket', async () => {
    const test = new TestLocks();
    const ticket = await (await test.locks.acquire('payment:1')).handOff();
    const lease = await test.locks.adopt(ticket, { minReplicas: 2 });
    await test.advance(120_000);
    expect(await lease.release()).toBe('released');
  });
});
