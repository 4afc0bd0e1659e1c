import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Observable } from 'rxjs';
import { Locked, LockService, LockUsageError, ReadLock } from '../../lib/index.js';
import { Gate, startApp, until } from './application.js';

@Injectable()
class MailService {
  inside = 0;
  most = 0;
  gate: Gate | undefined;

  constructor(readonly locks: LockService) {}

  @Locked('smtp', { permits: 3 })
  async send(): Promise<number> {
    return this.work();
  }

  @Locked('smtp', { permits: 3, onBusy: 'skip' })
  async sendIfFree(): Promise<number | undefined> {
    return this.work();
  }

  @Locked('smtp', { permits: 3, returns: 'observable' })
  stream(): Observable<number> {
    return new Observable((subscriber) => {
      this.inside += 1;
      subscriber.next(this.inside);
      return () => (this.inside -= 1);
    });
  }

  private async work(): Promise<number> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await this.gate?.opened;
    await new Promise((resolve) => setImmediate(resolve));
    this.inside -= 1;
    return 1;
  }
}

const embedded = { providers: [MailService] };

describe('A method with permits', () => {
  it('runs that many times at once, and no more', async () => {
    const mail = (await startApp(embedded)).get(MailService);
    mail.gate = new Gate();
    const calls = Array.from({ length: 8 }, () => mail.send());
    await until(() => mail.inside === 3);
    expect(await mail.locks.inspect('smtp')).toMatchObject({ mode: 'write', permits: 3, holders: [{ label: 'MailService.send' }, {}, {}] });
    expect(await mail.sendIfFree()).toBeUndefined();
    mail.gate.release();
    expect(await Promise.all(calls)).toEqual(new Array(8).fill(1));
    expect(mail.most).toBe(3);
    expect(await mail.sendIfFree()).toBe(1);
    expect(await mail.locks.inspect('smtp')).toMatchObject({ mode: null, holders: [] });
  });

  it('and a stream keeps its permit from subscription to unsubscription', async () => {
    const mail = (await startApp(embedded)).get(MailService);
    const subscriptions = Array.from({ length: 5 }, () => mail.stream().subscribe());
    await until(() => mail.inside === 3);
    for (const subscription of subscriptions.slice(0, 3)) subscription.unsubscribe();
    await until(() => mail.inside === 2);
    for (const subscription of subscriptions) subscription.unsubscribe();
    await until(async () => !(await mail.locks.isLocked('smtp')));
  });
});

describe('An application boots only where permits can be kept', () => {
  const app = (decorate: MethodDecorator): Promise<unknown> => {
    @Injectable()
    class Shop {
      async pay(): Promise<void> {}
    }
    decorate(Shop.prototype, 'pay', Object.getOwnPropertyDescriptor(Shop.prototype, 'pay')!);
    return startApp({ providers: [Shop] });
  };

  it.each<[string, MethodDecorator, RegExp]>([
    ['for readers', ReadLock('k', { permits: 3 } as object), /Shop\.pay.*permits do not go with mode 'read'/],
    ['for several keys', Locked(['a', 'b'], { permits: 3 }), /Shop\.pay.*permits \(3\) are those of one lock, and this call is for 2/],
    ['for an owner', Locked('k', { permits: 3, owner: 'me' }), /permits do not go with owner/],
    ['in such a number', Locked('k', { permits: 20_000 }), /permits to be a whole number from 1 to 10000, got 20000/],
  ])('and not %s', async (_what, decorate, words) => {
    const booted = app(decorate);
    await expect(booted).rejects.toBeInstanceOf(LockUsageError);
    await expect(booted).rejects.toThrow(words);
  });
});
