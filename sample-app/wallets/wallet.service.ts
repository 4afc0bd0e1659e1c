/** Wallets: money moves between two of them, so two locks are taken together. */
import { setTimeout as pause } from 'node:timers/promises';
import { BadRequestException, ConflictException, Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';

/** Stands for the check of a transfer by a fraud service. */
const CHECK_MS = 3;

@Injectable()
export class WalletService {
  constructor(
    private readonly ledger: Ledger,
    private readonly locks: LockService,
  ) {}

  /** Both wallets or none, in one order for everybody: two transfers that cross each other do not deadlock. */
  @Locked(['wallet:<0>', 'wallet:<1>'])
  async transfer(from: number, to: number, cents: number): Promise<void> {
    const [left, sum] = await this.check(from, to, cents);
    // With a database both writes are one transaction, begun and committed inside the lock.
    await this.ledger.write(walletKey(from), left, this.fence(from));
    await this.ledger.write(walletKey(to), sum, this.fence(to));
  }

  /** The same steps without the locks: only for comparison. */
  async transferWithoutLock(from: number, to: number, cents: number): Promise<void> {
    const [left, sum] = await this.check(from, to, cents);
    await this.ledger.writeUnguarded(walletKey(from), left);
    await this.ledger.writeUnguarded(walletKey(to), sum);
  }

  @Locked('wallet:<0>')
  async setBalance(wallet: number, cents: number): Promise<void> {
    await this.ledger.write(walletKey(wallet), cents, this.fence(wallet));
  }

  balance(wallet: number): Promise<number> {
    return this.ledger.read(walletKey(wallet));
  }

  private async check(from: number, to: number, cents: number): Promise<[left: number, sum: number]> {
    if (from === to) throw new BadRequestException('a transfer needs two wallets');
    const [payer, payee] = await Promise.all([this.balance(from), this.balance(to)]);
    if (payer < cents) throw new ConflictException(`wallet ${from} has only ${payer} cents`);
    await pause(CHECK_MS);
    return [payer - cents, payee + cents];
  }

  /** Every key has its own fence, and those of two keys cannot be compared. 0 is older than all of them. */
  private fence(wallet: number): number {
    const key = walletKey(wallet);
    return this.locks.assertLocked(key).fences.get(key) ?? 0;
  }
}

/** The wallet's name in the ledger, and the key of its lock. */
function walletKey(wallet: number): string {
  return `wallet:${wallet}`;
}
