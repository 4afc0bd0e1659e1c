/** Which module of an application gets the hook that is called before all others when it shuts down. */
import { describe, expect, it } from '@jest/globals';
import type { ModulesContainer } from '@nestjs/core';
import { beforeAllDestroyHooks } from '../../lib/nest/destroy-hooks.js';

interface Added {
  readonly useValue: { onModuleDestroy(): void };
}

/** A module at this distance from the root module. */
function moduleAt(distance: number) {
  const providers = new Map<unknown, Added & { hierarchyLevel: number }>();
  const addProvider = ({ provide, ...rest }: Added & { provide: unknown }) => void providers.set(provide, { ...rest, hierarchyLevel: 0 });
  return { distance, providers, addProvider };
}

describe('The hook that is called before all others', () => {
  it('is one of the nearest module of those that Nest calls, the last of several, before its other providers', () => {
    const modules = [3, 1, 1, 2, 0].map(moduleAt);
    let called = 0;
    beforeAllDestroyHooks(new Map(modules.entries()) as unknown as ModulesContainer, () => (called += 1));
    expect(modules.map(({ providers }) => providers.size)).toEqual([0, 0, 1, 0, 0]);
    const [hook] = modules[2]!.providers.values();
    expect(hook!.hierarchyLevel).toBe(Number.MAX_SAFE_INTEGER);
    hook!.useValue.onModuleDestroy();
    expect(called).toBe(1);
  });

  it('has a place of its own for each lock module', () => {
    const root = moduleAt(1);
    for (let n = 0; n < 2; n += 1) beforeAllDestroyHooks(new Map([[0, root]]) as unknown as ModulesContainer, () => undefined);
    expect(root.providers.size).toBe(2);
  });
});
