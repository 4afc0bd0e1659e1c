/**
 * Renewals that replicas must acknowledge. A connection that waits for replicas does nothing else meanwhile, so there is one
 * command at a time, and all that comes while it is out goes together with the next: as many callers as there are wait for
 * the replicas twice at most.
 */
import type { RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import { isTryAgain } from '../wire/store-failure.js';

interface Gathered {
  readonly requests: readonly RenewRequest[];
  readonly resolve: (outcomes: readonly RenewOutcome[]) => void;
  readonly reject: (error: unknown) => void;
}

export class GatheredRenewals {
  /** By what may share a command; there while one is out. */
  private readonly waiting = new Map<string, Gathered[]>();

  /** `send` takes up to `largest` requests; a larger one that comes in one piece is its caller's affair. */
  constructor(
    private readonly send: (requests: readonly RenewRequest[]) => Promise<readonly RenewOutcome[]>,
    private readonly largest: number,
  ) {}

  /** Answers in the order of the requests; rejects as `send` does. */
  renew(together: string, requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    return new Promise((resolve, reject) => {
      const one: Gathered = { requests, resolve, reject };
      const waiting = this.waiting.get(together);
      if (waiting !== undefined) return void waiting.push(one);
      this.waiting.set(together, [one]);
      // What is asked for in this turn goes together already.
      process.nextTick(() => void this.sendAll(together));
    });
  }

  private async sendAll(together: string): Promise<void> {
    for (let waiting = this.waiting.get(together); waiting !== undefined && waiting.length > 0; waiting = this.waiting.get(together)) {
      await this.sendSome(waiting.splice(0, this.fitting(waiting)));
    }
    this.waiting.delete(together);
  }

  /** How many of them make one command, at least one. */
  private fitting(waiting: readonly Gathered[]): number {
    let size = 0;
    const tooMany = waiting.findIndex(({ requests }) => (size += requests.length) > this.largest);
    return tooMany < 0 ? waiting.length : Math.max(1, tooMany);
  }

  private async sendSome(some: readonly Gathered[]): Promise<void> {
    try {
      const outcomes = await this.send(some.flatMap(({ requests }) => requests));
      let at = 0;
      for (const { requests, resolve } of some) resolve(outcomes.slice(at, (at += requests.length)));
    } catch (error) {
      if (some.length > 1 && isTryAgain(error)) for (const one of some) await this.sendSome([one]);
      else for (const { reject } of some) reject(error);
    }
  }
}
