/** A database with transactions that read what is committed, in memory, and a decorator as libraries of transactions have it. */
import { AsyncLocalStorage } from 'node:async_hooks';

/** How many turns of the event loop a commit takes: more than a lock needs to be handed on. */
const COMMIT_TAKES = 20;

class Database {
  private readonly committed = new Map<string, number>();
  private readonly open = new AsyncLocalStorage<Map<string, number>>();

  read(key: string): number {
    return this.open.getStore()?.get(key) ?? this.committed.get(key) ?? 0;
  }

  write(key: string, value: number): void {
    (this.open.getStore() ?? this.committed).set(key, value);
  }

  /** Runs `work` in a transaction, or in the one around it. */
  transaction<T>(work: () => Promise<T>): Promise<T> {
    if (this.open.getStore()) return work();
    const changes = new Map<string, number>();
    return this.open.run(changes, async () => {
      const result = await work();
      for (let turn = 0; turn < COMMIT_TAKES; turn++) await new Promise((resolve) => setImmediate(resolve));
      for (const [key, value] of changes) this.committed.set(key, value);
      return result;
    });
  }
}

export const database = new Database();

/** Runs the method in a transaction, as the decorators of that name do. */
export function Transactional(): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    descriptor.value = function (this: unknown, ...args: unknown[]) {
      return database.transaction(() => method.apply(this, args));
    };
  };
}
