/** An APM agent that puts a Proxy around each provider, and a span around each of its methods, as @nestjs/observe does. */
import { expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, LockService } from '../../lib/index.js';
import { startApp } from './application.js';

const spans: string[] = [];
/** A function of another prototype, or with properties of its own, is an object that can be called: a model, a client. An agent leaves it alone. */
const METHODS: readonly unknown[] = [Function.prototype, Object.getPrototypeOf(async () => undefined)];

function traced<T extends object>(provider: T): T {
  return new Proxy(provider, {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || name === 'constructor' || !METHODS.includes(Object.getPrototypeOf(value)) || Object.keys(value).length > 0) return value;
      return (...args: unknown[]): unknown => {
        spans.push(`${target.constructor.name}.${value.name}`);
        return Reflect.apply(value, receiver, args);
      };
    },
  });
}

@Injectable()
class Orders {
  inside = 0;
  most = 0;

  constructor(private readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(id: string): Promise<string | undefined> {
    this.most = Math.max(this.most, (this.inside += 1));
    await this.check(id);
    this.inside -= 1;
    return this.locks.currentLease()?.key;
  }

  private async check(_id: string): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

it.each([
  ['after Nest has made it', { providers: [Orders] }],
  ['in a factory', { providers: [{ provide: Orders, inject: [LockService], useFactory: (locks: LockService) => traced(new Orders(locks)) }] }],
])('A locked method is locked and has a span where the agent wraps its provider %s', async (_name, metadata) => {
  const app = await startApp(metadata);
  const made = app.get(Orders);
  const orders = 'useFactory' in metadata.providers[0]! ? made : traced(made);
  spans.length = 0;
  expect(await Promise.all([orders.pay('7'), orders.pay('7')])).toEqual(['order:7', 'order:7']);
  expect(orders.most).toBe(1);
  expect(spans.sort()).toEqual(['Orders.check', 'Orders.check', 'Orders.pay', 'Orders.pay']);
});
