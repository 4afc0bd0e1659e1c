/** Which lock module the objects of a module belong to, by what Nest would inject there, and from which prototypes methods come. */
import { describe, expect, it } from '@jest/globals';
import { interceptorToken } from '../../lib/nest/lock-names.js';
import type { LockInterceptor } from '../../lib/nest/lock.interceptor.js';
import { ancestors, isFor, prototypeOf, wrappersByModule, type NestModule } from '../../lib/nest/provided-objects.js';

const token = interceptorToken('default');
const [ours, theirs] = ['ours', 'theirs'].map((name) => ({ name }) as unknown as LockInterceptor) as [LockInterceptor, LockInterceptor];

interface Made {
  readonly imports: Set<NestModule>;
  readonly exports: Set<unknown>;
}

/** A module that imports these, and exports these. */
function moduleOf(imports: readonly NestModule[] = [], exported: readonly unknown[] = [], interceptor?: LockInterceptor): NestModule {
  const metatype = class {};
  const providers = new Map(interceptor === undefined ? [] : [[token, { instance: interceptor }]]);
  return { metatype, imports: new Set(imports), exports: new Set(exported), providers } as unknown as NestModule;
}

const locks = (interceptor: LockInterceptor): NestModule => moduleOf([], [token], interceptor);
const belongs = (module: NestModule): boolean => isFor(module, { instance: 'default', interceptor: ours });

describe('The objects of a module', () => {
  it('belong to the lock module that it imports, the first of several', () => {
    expect([belongs(moduleOf([locks(ours)])), belongs(moduleOf([locks(theirs)]))]).toEqual([true, false]);
    expect([belongs(moduleOf([moduleOf(), locks(ours), locks(theirs)])), belongs(moduleOf([locks(theirs), locks(ours)]))]).toEqual([true, false]);
  });

  it('belong to any where it imports none', () => {
    expect([belongs(moduleOf()), belongs(moduleOf([moduleOf()]))]).toEqual([true, true]);
  });

  it('belong to one that an imported module exports, and not to one that it keeps to itself', () => {
    const far = locks(theirs);
    const [open, closed] = [moduleOf([far], [far.metatype]), moduleOf([far], [])];
    expect([belongs(moduleOf([open])), belongs(moduleOf([closed])), belongs(moduleOf([moduleOf([open], [open.metatype])]))]).toEqual([false, true, false]);
  });

  it('are found out about also where modules import each other, or export what nobody provides', () => {
    const [one, two] = [moduleOf(), moduleOf()];
    for (const [from, to] of [[one, two], [two, one]] as const) {
      (from as unknown as Made).imports.add(to);
      (from as unknown as Made).exports.add(to.metatype);
    }
    expect([belongs(moduleOf([one])), belongs(moduleOf([one, locks(theirs)]))]).toEqual([true, false]);
    expect(belongs(moduleOf([moduleOf([], [token])]))).toBe(true);
  });

  it('are its providers, controllers and injectables', () => {
    const group = (name: string) => new Map([[name, name]]);
    const module = { providers: group('provider'), controllers: group('controller'), injectables: group('injectable') };
    expect(wrappersByModule(new Map([['a', module]]) as never)).toEqual([{ module, wrappers: ['provider', 'controller', 'injectable'] }]);
  });
});

describe('The prototypes of an object', () => {
  class Base {}
  class Derived extends Base {}

  it('are those of its class and of the classes that this extends, the nearest first', () => {
    expect(ancestors(prototypeOf(new Derived())!)).toEqual([Derived.prototype, Base.prototype]);
    expect(ancestors(Object.prototype)).toEqual([]);
    expect(ancestors(Object.create(null) as object)).toHaveLength(1);
  });

  it.each([undefined, null, 7, 'a text', () => undefined, Object.create(null)])('are none for %p', (made) => {
    expect(prototypeOf(made)).toBeUndefined();
  });
});
