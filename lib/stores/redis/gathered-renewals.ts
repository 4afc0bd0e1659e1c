/**
 * Gathers renewals that replicas must acknowledge. A connection that waits for replicas can do nothing else meanwhile. So one
 * command is sent at a time, and all renewals that come before its answer are sent together with the next: each waits for the
 * replicas at most twice.
 */
import type { RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import { isTryAgain } from '../wire/store-failure.js';

interface Gathered {
  readonly requests: readonly RenewRequest[];
  readonly resolve: (outcomes: readonly RenewOutcome[]) => void;
  readonly reject: (error: unknown) => void;
}

export class GatheredRenewals {
  /** The renewals to send next, by the name under which they may share a command. An entry exists while a command is open. */
  private readonly waiting = new Map<string, Gathered[]>();

  /** `send` gets at most `largest` requests, or the requests of one call of {@link renew}, however many they are. */
  constructor(
    private readonly send: (requests: readonly RenewRequest[]) => Promise<readonly RenewOutcome[]>,
    private readonly largest: number,
  ) {}

  /** Renews leases that may share a command with others of the name `together`. Outcomes are in order; rejects as `send` does. */
  renew(together: string, requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    return new Promise((resolve, reject) => {
      const one: Gathered = { requests, resolve, reject };
      const waiting = this.waiting.get(together);
      if (waiting !== undefined) return void waiting.push(one);
      this.waiting.set(together, [one]);
      // All renewals of this turn of the event loop go together already.
      process.nextTick(() => void this.sendAll(together));
    });
  }

  private async sendAll(together: string): Promise<void> {
    for (let waiting = this.waiting.get(together); waiting !== undefined && waiting.length > 0; waiting = this.waiting.get(together)) {
      await this.sendSome(waiting.splice(0, this.fitting(waiting)));
    }
    this.waiting.delete(together);
  }

  /** How many of the waiting calls fit into one command: at least one. */
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
