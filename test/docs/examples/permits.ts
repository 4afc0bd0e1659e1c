/** The example of docs/permits.md. */
import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-holdfast';

interface Mail {
  readonly to: string;
}

export interface MailService {
  transport: { sendMail(mail: Mail): Promise<void> };
}

@Injectable()
export class MailService {
  @Locked('smtp', { permits: 5 })
  async send(mail: Mail): Promise<void> {
    await this.transport.sendMail(mail);
  }
}
