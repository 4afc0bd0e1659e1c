/** The methods that decorators are put on: what a decorator may decorate, how messages name it, and what it writes down of it. */
import 'reflect-metadata';
import { LockUsageError } from '../core/port/errors.js';
import type { LockService } from '../lock.service.js';

/**
 * What the decorators of one kind wrote down of methods. It stands beside the prototype and not on the function, so that other
 * decorators may replace the function.
 */
export class MethodRecords<Written> {
  private readonly kept: symbol;

  /** `name` is the same in the ES module and the CommonJS copy of this package, so that each reads what the other wrote. */
  constructor(name: string) {
    this.kept = Symbol.for(`nestjs-holdfast:${name}`);
  }

  add(prototype: object, property: string | symbol, written: Written): void {
    const known = this.of(prototype);
    const all = [...(known.get(property) ?? []), written];
    Reflect.defineMetadata(this.kept, new Map([...known, [property, all]]), prototype);
  }

  /** The records of one prototype, without those of its ancestors. Of a method the first is that of the decorator nearest to it. */
  of(prototype: object): ReadonlyMap<string | symbol, readonly Written[]> {
    const found: unknown = Reflect.getOwnMetadata(this.kept, prototype);
    return found instanceof Map ? found : new Map();
  }
}

/** How messages name a method, of the class or of an object of it: `OrderService.pay`. */
export function methodName(target: object, property: string | symbol): string {
  const { name } = typeof target === 'function' ? target : target.constructor;
  return `${name || 'an anonymous class'}.${String(property)}`;
}

/** The method that a decorator was put on. `instead` is what LockService has for what is no method. @throws LockUsageError */
export function methodOf(
  name: string,
  instead: keyof LockService,
  target: object,
  property: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): CallableFunction {
  if (descriptor === undefined && (typeof property === 'string' || typeof property === 'symbol')) {
    throw new LockUsageError(`${methodName(target, property)} is a property, and @${name} decorates methods. Write an arrow function as a method.`);
  }
  if (descriptor === undefined) {
    throw new LockUsageError(`@${name} decorates methods, with "experimentalDecorators" switched on as Nest needs it.`);
  }
  if (typeof target === 'function') {
    throw new LockUsageError(`${methodName(target, property)} is static, where nothing can be injected. Use LockService.${instead}, or make it a method.`);
  }
  const method: unknown = descriptor.value;
  if (typeof method === 'function') return method;
  throw new LockUsageError(`${methodName(target, property)} is no method, and @${name} decorates methods only.`);
}
