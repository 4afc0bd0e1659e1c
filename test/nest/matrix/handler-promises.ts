/** What a lock promises of a handler, whatever its kind, scope, order of decorators and result: asked of a table of kinds. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, type DynamicModule, type INestApplication, type Type } from '@nestjs/common';
import { LockService } from '../../../lib/index.js';
import { eventually } from '../../support/eventually.js';
import { created, Gate, until } from '../application.js';
import { Stage, type Act } from './stage.js';
import { variantsOf, type Call, type Kind, type Running, type Variant } from './variants.js';

/** One application for all variants of a kind; `locks` makes its lock module once servers run. */
export function handlerPromises(kind: Kind, locks: () => DynamicModule): void {
  const variants = variantsOf(kind, ['above', 'below', 'none']);
  const handlers = new Map(variants.map((variant) => [variant.name, kind.handler(variant)]));
  const waiting = new Set<string>();
  let app: INestApplication;
  let running: Running;
  let calls = 0;

  beforeAll(async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const { imports = [], providers = [], controllers = [] } = kind.modules(variants, [...handlers.values()]);
    const works = variants.map(({ work }) => work);
    app = await created({ imports: [locks(), ...imports], controllers, providers: [Stage, ...works, ...providers] });
    running = await kind.start(app);
    app.get(LockService).events.subscribe(({ type, key }) => type === 'waiting' && waiting.add(key));
  });
  afterAll(async () => {
    await running?.close?.();
    await app?.close();
    jest.restoreAllMocks();
  });
  beforeEach(() => void (app.get(Stage).admits = true));
  afterEach(() => app.get(Stage).openGates());

  /** A key that nobody has used, or used up. */
  function scene(variant: Variant): { act: Act; key: string; call: () => Call } {
    const id = kind.onlyId ?? `call${++calls}`;
    const key = `${variant.name}:${id}`;
    waiting.delete(key);
    return { key, act: app.get(Stage).clear(key), call: () => running.call(variant, id) };
  }

  const isLocked = (key: string) => app.get(LockService).isLocked(key);
  const free = (key: string) => eventually(async () => expect(await isLocked(key)).toBe(false));
  const methodOf = ({ name, lifetime, work }: Variant): object =>
    lifetime === 'transient' ? work.prototype.run : (handlers.get(name) as Type).prototype[kind.method];

  describe.each(variantsOf(kind, ['above', 'below']).map((variant) => [wordsFor(variant), variant] as const))('%s', (_words, { name }) => {
    const variant = named(variants, name);
    const without = named(variants, `${variant.lifetime}_none_${variant.returns}`);

    it('runs one call at a time for its key, inside the lease, and is free after', async () => {
      const { act, key, call } = scene(variant);
      act.gate = new Gate();
      const both = [call(), call()];
      await eventually(() => expect([act.entered, waiting.has(key)]).toEqual([1, true]));
      expect(await isLocked(key)).toBe(true);
      act.gate.release();
      await Promise.all(both.map(({ answer }) => answer));
      expect([act.entered, act.most, [...act.leases]]).toEqual([2, 1, [key]]);
      await free(key);
    });

    it.each([
      { ending: 'success', fails: false, admits: true },
      { ending: 'an error', fails: true, admits: true },
      ...(kind.guarded ? [{ ending: 'a guard that denies', fails: false, admits: false }] : []),
    ])('answers as without its lock, and is free, after $ending', async ({ fails, admits }) => {
      app.get(Stage).admits = admits;
      const answers: unknown[] = [];
      for (const asked of [variant, without]) {
        const { act, key, call } = scene(asked);
        act.fails = fails;
        answers.push(nameless(await call().answer, key));
        expect(act.entered).toBe(admits ? 1 : 0);
        expect(act.leases.has(key)).toBe(admits && asked === variant);
        await free(key);
      }
      expect(answers[0]).toEqual(answers[1]);
    });

    it('carries all the metadata of its method, its name and its length', () => {
      const carried = [variant, without].map((asked) => {
        const method = methodOf(asked);
        const keys = Reflect.getOwnMetadataKeys(method);
        const metadata = keys.map((key) => [String(key), Reflect.getOwnMetadata(key, method) as unknown]);
        return nameless([metadata, Reflect.get(method, 'name'), Reflect.get(method, 'length')], `${asked.name}:`);
      });
      expect(carried[0]).toEqual(carried[1]);
      expect(carried[0]).toContain('clerk');
    });

    it('is told when its lease is lost, and the next call gets in', async () => {
      const { act, key, call } = scene(variant);
      act.gate = new Gate();
      const first = call();
      await eventually(() => expect(act.inside).toBe(1));
      await app.get(LockService).forceRelease(key);
      await eventually(() => expect(act.inside).toBe(0));
      await first.answer;
      act.gate = undefined;
      await call().answer;
      expect([act.entered, act.most]).toEqual([2, 1]);
      await free(key);
    });

    const onLeaving = kind.returns[variant.returns];
    if (onLeaving === 'ends') {
      it('ends and is free within a second after its caller went away', async () => {
        const { act, key, call } = scene(variant);
        act.gate = new Gate();
        const { leave } = call();
        await eventually(() => expect(act.inside).toBe(1));
        expect(await isLocked(key)).toBe(true);
        await leave?.();
        await until(async () => !(await isLocked(key)), 'the release');
        expect(act.inside).toBe(0);
      });
    } else if (onLeaving === 'goes on') {
      it('goes on under its lock when its caller went away, until its work is done', async () => {
        const { act, key, call } = scene(variant);
        act.gate = new Gate();
        const { leave } = call();
        await eventually(() => expect(act.inside).toBe(1));
        await leave?.();
        const next = call();
        await eventually(() => expect([act.entered, waiting.has(key)]).toEqual([1, true]));
        act.gate.release();
        await next.answer;
        expect([act.entered, act.most]).toEqual([2, 1]);
        await free(key);
      });
    }
  });
}

function wordsFor({ lifetime, order, returns }: Variant): string {
  const scope = { singleton: 'as a singleton', request: 'in the scope of its request', transient: 'over a transient object' }[lifetime];
  return `${scope}, with the lock ${order} its other decorators, that returns ${returns === 'promise' ? 'a Promise' : 'an Observable'}`;
}

function named(variants: readonly Variant[], name: string): Variant {
  const found = variants.find((variant) => variant.name === name);
  if (!found) throw new Error(`no variant ${name}`);
  return found;
}

/** As text, without what tells variants and calls apart. */
function nameless(value: unknown, key: string): string {
  const [name = '', id = ''] = key.split(':');
  const text = JSON.stringify(value, (_key, part: unknown) => (part instanceof Error ? part.message : part)) ?? 'undefined';
  return id === '' ? text.replaceAll(name, '(name)') : text.replaceAll(name, '(name)').replaceAll(id, '(id)');
}
