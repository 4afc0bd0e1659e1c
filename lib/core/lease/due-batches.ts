/**
 * The batches in which a process sends what is due: the renewals of its leases (watchdog.ts), and the heartbeats by which its requests keep
 * their places (queue/store-request.ts). Items that may share a command stand in one line. In a turn of the event loop each line sends one batch, so that a hundred
 * thousand leases, or a crowd of waiters, do not block the loop.
 */
import type { Clock } from '../port/clock.js';

/** How many are handed to the store at a time. The store splits them into commands. */
const LARGEST_BATCH = 250;

export class DueBatches<T> {
  /** What is due. Only items of one line share a batch. */
  private readonly lines = new Map<number, T[]>();
  private isSending = false;
  private readonly whenAllAreSent: (() => void)[] = [];
  /** The batches that are not answered yet. */
  private readonly unanswered = new Set<Promise<void>>();

  constructor(
    private readonly clock: Clock,
    /** Sends a batch; resolves when it was answered. */
    private readonly send: (items: readonly T[]) => Promise<void>,
    /** Called before the batches of a turn leave: it may add more to them. */
    private readonly fill: () => void = () => {},
  ) {}

  /** Whether there is a batch to which nothing can be added. */
  get areFull(): boolean {
    return [...this.lines.values()].some(({ length }) => length >= LARGEST_BATCH);
  }

  add(item: T, line = 0): void {
    const others = this.lines.get(line);
    if (others) others.push(item);
    else this.lines.set(line, [item]);
    this.sendSoon();
  }

  /** Resolves when all that was added is sent, and answered. */
  async settled(): Promise<void> {
    if (this.isSending) await new Promise<void>((resolve) => this.whenAllAreSent.push(resolve));
    await Promise.all(this.unanswered);
  }

  private sendSoon(): void {
    if (this.isSending) return;
    this.isSending = true;
    this.clock.nextTurn(() => {
      this.fill();
      this.isSending = false;
      for (const [line, items] of this.lines) {
        if (items.length <= LARGEST_BATCH) this.lines.delete(line);
        const answered = this.send(items.splice(0, LARGEST_BATCH)).finally(() => this.unanswered.delete(answered));
        this.unanswered.add(answered);
      }
      if (this.lines.size > 0) this.sendSoon();
      else for (const allAreSent of this.whenAllAreSent.splice(0)) allAreSent();
    });
  }
}
