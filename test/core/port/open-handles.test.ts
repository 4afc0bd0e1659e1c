/** What tools that look for what keeps a process open see of this package. */
import { createHook } from 'node:async_hooks';
import { afterAll, expect, it } from '@jest/globals';

const open = new Map<number, string>();
const hook = createHook({ init: (id, type) => void open.set(id, type), destroy: (id) => void open.delete(id) }).enable();
afterAll(() => void hook.disable());

/** What was made and is not destroyed, without what Node and jest make themselves. */
const ours = (): string[] => [...open.values()].filter((type) => /holdfast|TestTimer/i.test(type));

it('The clocks leave no resource open, and their timers run in no caller\'s context', async () => {
  const { AsyncLocalStorage, AsyncResource } = await import('node:async_hooks');
  const { systemClock } = await import('../../../lib/core/port/clock.js');
  const { TestClock } = await import('../../../lib/testing/test-clock.js');
  const context = new AsyncLocalStorage<string>();
  const clock = new TestClock();
  const seen = await context.run('caller', () => new Promise((resolve) => void systemClock.setTimer(() => resolve(context.getStore()), 1)));
  const seenInTests = context.run('caller', () => new Promise((resolve) => void clock.setTimer(() => resolve(context.getStore()), 1)));
  await clock.advance(1);
  expect([seen, await seenInTests]).toEqual([undefined, 'caller']);
  expect(ours()).toEqual([]);
  new AsyncResource('holdfast of this test');
  expect(ours()).toEqual(['holdfast of this test']);
});
