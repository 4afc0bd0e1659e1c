/** The fragments of docs/transactions.md, with as much of TypeORM and Prisma as they use. */
import { Locked, type LockService } from 'nestjs-holdfast';

class Order {
  id = '';
  state = 'open';
}

interface EntityManager {
  findOneByOrFail(entity: typeof Order, where: { readonly id: string }): Promise<Order>;
  save(order: Order): Promise<unknown>;
}

interface Transaction {
  order: {
    findUniqueOrThrow(query: { readonly where: { readonly id: string } }): Promise<Order>;
    update(query: { readonly where: { readonly id: string }; readonly data: Partial<Order> }): Promise<Order>;
  };
}

interface DataSource {
  transaction(work: (manager: EntityManager) => Promise<void>): Promise<void>;
}

export class ByTypeOrm {
  constructor(
    private readonly locks: LockService,
    private readonly stock: { add(article: string): Promise<void> },
    private readonly dataSource: DataSource,
  ) {}

  async joined(dataSource = this.dataSource): Promise<void> {
    await dataSource.transaction(async () => {
      await this.stock.add('a'); // its lock is given back here
    }); // the commit is here
  }

  async around(dataSource = this.dataSource): Promise<void> {
    await this.locks.withLock('stock:a', () => dataSource.transaction(() => this.stock.add('a')));
  }

  @Locked('order:<0>')
  async pay(orderId: string): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const order = await manager.findOneByOrFail(Order, { id: orderId });
      order.state = 'paid';
      await manager.save(order);
      this.locks.assertLocked(`order:${orderId}`); // the last line: throws, and so rolls back, when the lease was lost
    });
  }
}

export class ByPrisma {
  constructor(
    private readonly locks: LockService,
    private readonly prisma: { $transaction(work: (tx: Transaction) => Promise<void>): Promise<void> },
  ) {}

  @Locked('order:<0>')
  async pay(orderId: string): Promise<void> {
    await this.prisma.$transaction(async (tx) => {
      const order = await tx.order.findUniqueOrThrow({ where: { id: orderId } });
      await tx.order.update({ where: { id: order.id }, data: { state: 'paid' } });
      this.locks.assertLocked(`order:${orderId}`);
    });
  }
}
