/** What waits to be paid, and where it waits: each order with the ticket for its lock. */
export interface PaymentJob {
  readonly order: number;
  /** Whoever brings it to `locks.withAdopted` has the lock of the order. It is text, so it fits into the data of any job. */
  readonly ticket: string;
  /** For the tour: the worker that takes the job crashes. */
  readonly crash: boolean;
}

/** Takes jobs from requests, and gives each to one worker. A class and not an interface, so that it is its own token. */
export abstract class PaymentQueue {
  abstract add(job: PaymentJob): Promise<void>;
}
