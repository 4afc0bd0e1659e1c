/** Stands for the payment provider: an answer takes a moment, and in that moment others read the same stock. */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';

const ANSWER_MS = 10;

@Injectable()
export class PaymentService {
  async charge(): Promise<void> {
    await pause(ANSWER_MS);
  }
}
