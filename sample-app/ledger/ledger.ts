/**
 * The numbers of the shop (pieces in stock, cents), kept where a late write is refused: next to each number stands the
 * highest fence that ever wrote it. A lock cannot stop a process that slept through the end of its lease and then goes
 * on; this comparison can, and it belongs where the data is.
 */
import { ConflictException } from '@nestjs/common';

export abstract class Ledger {
  /** The number of that name, 0 when it was never written. */
  abstract read(name: string): Promise<number>;
  /** Writes on behalf of the hold with this fence. @throws StaleFenceError when a newer hold has written before */
  abstract write(name: string, value: number, fence: number): Promise<void>;
  /** Writes without asking whether a newer hold has written: only for showing what goes wrong without a lock. */
  abstract writeUnguarded(name: string, value: number): Promise<void>;
}

/** A holder came back after its lease had ended, and somebody else has written since. Nothing was changed. */
export class StaleFenceError extends ConflictException {
  constructor(name: string, fence: number) {
    super(`${name} was not changed: fence ${fence} is older than the last one that wrote it`);
  }
}
