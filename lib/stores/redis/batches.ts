/**
 * Sends items in few commands: those that were added under one name in a turn of the event loop share a command, and only some commands wait
 * for their answers at a time. A process that holds a hundred thousand leases sends hundreds of commands after a new connection. Sent all at
 * once, the last of them would wait longer than their timeout for the first, and be sent again while the server still works on what nobody
 * awaits any more. What a server refuses because its slot is being moved is sent again item by item.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { isTryAgain } from '../wire/store-failure.js';

interface Waiting<T, R> {
  readonly item: T;
  readonly answered: (outcome: R | Unknown) => void;
}

/** The outcome of an item whose command failed. */
interface Unknown {
  readonly kind: 'unknown';
  readonly cause: LockStoreError;
}

export class Batches<T, R> {
  /** What waits under each name, and how many commands are out. An entry exists while there is either. */
  private readonly lines = new Map<unknown, { out: number; readonly waiting: Waiting<T, R>[] }>();

  constructor(
    /** How many items a command has at most. */
    private readonly size: number,
    /** How many commands are out under a name at most. */
    private readonly most: number,
    /** Resolves with the outcomes, in the order of the items. Rejects with LockStoreError. */
    private readonly send: (items: readonly T[]) => Promise<readonly R[]>,
  ) {}

  /** The outcome of this item. `name`: of the server, and of what may share a command. Never rejects. */
  run(name: unknown, item: T): Promise<R | Unknown> {
    return new Promise((answered) => {
      let line = this.lines.get(name);
      if (line === undefined) this.lines.set(name, (line = { out: 0, waiting: [] }));
      line.waiting.push({ item, answered });
      if (line.waiting.length === 1) process.nextTick(() => this.sendMore(name));
    });
  }

  private sendMore(name: unknown): void {
    const line = this.lines.get(name);
    if (line === undefined) return;
    while (line.waiting.length > 0 && line.out < this.most) {
      line.out += 1;
      void this.sendBatch(line.waiting.splice(0, this.size)).then(() => {
        line.out -= 1;
        this.sendMore(name);
      });
    }
    if (line.out === 0) this.lines.delete(name);
  }

  private async sendBatch(batch: readonly Waiting<T, R>[]): Promise<void> {
    try {
      const outcomes = await this.send(batch.map(({ item }) => item));
      batch.forEach(({ answered }, n) => answered(outcomes[n]!));
    } catch (error) {
      if (batch.length > 1 && isTryAgain(error)) await Promise.all(batch.map((one) => this.sendBatch([one])));
      else for (const { answered } of batch) answered({ kind: 'unknown', cause: error as LockStoreError });
    }
  }
}
