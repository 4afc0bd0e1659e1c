/** The examples of docs/recipes.md. */
import type { LockService } from 'nestjs-holdfast';

export class Prices {
  constructor(
    private readonly locks: LockService,
    private readonly cache: { get(id: string): Promise<number | undefined>; set(id: string, price: number): Promise<void> },
    private readonly compute: (id: string) => Promise<number>,
  ) {}

  async price(id: string): Promise<number> {
    const cached = await this.cache.get(id);
    if (cached !== undefined) return cached;
    return this.locks.withLock(`price:${id}`, async () => {
      const meanwhile = await this.cache.get(id);
      if (meanwhile !== undefined) return meanwhile;
      const price = await this.compute(id);
      await this.cache.set(id, price);
      return price;
    });
  }
}

export async function afterImport(locks: LockService): Promise<void> {
  await locks.withLock('import', { mode: 'read', waitMs: 60_000 }, () => undefined);
}

interface Tables {
  readonly orders: { find(id: string): Promise<{ readonly paid: boolean; readonly amount: number }>; markPaid(id: string, charge: string): Promise<void> };
}

export class Checkout {
  constructor(
    private readonly locks: LockService,
    private readonly database: { transaction<T>(work: (tables: Tables) => Promise<T>): Promise<T> },
    private readonly provider: { charge(amount: number, options: { readonly idempotencyKey: string }): Promise<{ readonly id: string }> },
  ) {}

  async pay(id: string): Promise<void> {
    await this.locks.withLock(`order:${id}`, async (lease) => {
      await this.database.transaction(async ({ orders }) => {
        const order = await orders.find(id);
        if (order.paid) return;
        const charge = await this.provider.charge(order.amount, { idempotencyKey: `order:${id}` });
        lease.assertHeld();
        await orders.markPaid(id, charge.id);
      });
    });
  }
}

export async function eachRow(locks: LockService, ids: AsyncGenerator<string>, update: (id: string) => Promise<void>): Promise<void> {
  const caller = async (): Promise<void> => {
    for await (const id of ids) await locks.withLock(`row:${id}`, { awaitRelease: false }, () => update(id));
  };
  await Promise.all(Array.from({ length: 64 }, caller));
}
