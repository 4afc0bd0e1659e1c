/**
 * Stands for the payment provider: an answer takes a moment, and in that moment others read the same stock. It allows three calls at
 * a time, of all instances together, and whoever comes fourth waits.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-holdfast';

const ANSWER_MS = 10;

@Injectable()
export class PaymentService {
  @Locked('payment-provider', { permits: 3, waitMs: 60_000 })
  async charge(): Promise<void> {
    await pause(ANSWER_MS);
  }
}
