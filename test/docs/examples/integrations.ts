/** The fragments of docs/integrations.md. */
import type { NatsContext } from '@nestjs/microservices';
import { Cron } from '@nestjs/schedule';
import { Locked, LockInterceptor } from 'nestjs-holdfast';

export class Lottery {
  draws = 0;

  @Cron('0 3 * * *')
  @Locked('nightly-draw', { onBusy: 'skip', minHoldMs: 30_000 })
  async draw(): Promise<void> { this.draws += 1; }
}

export const bySubject =
  LockInterceptor.of((context) => `subject:${context.switchToRpc().getContext<NatsContext>().getSubject()}`)
