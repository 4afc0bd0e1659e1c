/** The example of docs/keys.md. */
import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Locked, lockKey, type LockService } from 'nestjs-holdfast';

type Work = () => Promise<void>;

export class Orders {
  constructor(private readonly work: Work) {}

  @Locked('order:<0>')
  async pay(id: string): Promise<void> { await this.check(id); }

  @Locked('line:<0>:<1>')
  async pack(shop: string, order: string): Promise<void> { await this.check(shop, order); }

  private check(...ids: string[]): Promise<void> {
    return ids.length > 0 ? this.work() : Promise.resolve();
  }
}

export async function byHand(locks: LockService, id: string, shop: string, order: string, work: Work): Promise<void> {
  await locks.withLock(`order:${id}`, work); // the lock of pay(id), for every id
  await locks.withLock(lockKey`line:${shop}:${order}`, work); // the lock of pack(shop, order), for every shop and order
}

@Injectable({ scope: Scope.REQUEST })
export class TenantService {
  readonly name: string;

  constructor(@Inject(REQUEST) request: { readonly headers: Readonly<Record<string, string>> }) {
    this.name = request.headers['x-tenant'] ?? '';
  }
}

@Injectable({ scope: Scope.REQUEST })
export class OrderService {
  constructor(private readonly tenant: TenantService) {}

  @Locked(function (this: OrderService, id: string) {
    return `${this.tenant.name}:order:${id}`;
  })
  async pay(id: string): Promise<void> { await Promise.resolve(id); }
}
