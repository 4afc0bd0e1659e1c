// Stands in for '@jest/globals': the same words, in plain node and in one process, so that a test runs again without being loaded again.
import { bind } from 'jest-each';
import { ModuleMocker } from 'jest-mock';
import * as withExpect from 'expect';

export const { expect } = withExpect;
const mocker = new ModuleMocker(globalThis);
export const jest = {
  fn: (...given) => mocker.fn(...given),
  spyOn: (...given) => mocker.spyOn(...given),
  restoreAllMocks: () => mocker.restoreAllMocks(),
  mocked: (mock) => mock,
  useRealTimers: () => undefined,
};

const newScope = (name, parent) => ({ name, parent, beforeAll: [], afterAll: [], beforeEach: [], afterEach: [] });
let scope = newScope('', undefined);
/** The tests that have been told of since they were last taken. */
let told = [];
export const takeTests = () => told.splice(0);
/** Between two files. */
export const newFile = () => (scope = newScope('', undefined));

const declare = (name, body) => {
  scope = newScope(name, scope);
  body();
  scope = scope.parent;
};
const pathOf = (from) => (from === undefined ? [] : [...pathOf(from.parent), from]);
const test = (name, run) => told.push({ name: [...pathOf(scope).slice(1).map((each) => each.name), name].join(' › '), run, scopes: pathOf(scope) });
const withEach = (words) => Object.assign(words, { each: bind(words, false) });
export const it = withEach(test);
export { it as test };
export const describe = withEach(declare);
export const beforeAll = (hook) => scope.beforeAll.push(hook);
export const afterAll = (hook) => scope.afterAll.push(hook);
export const beforeEach = (hook) => scope.beforeEach.push(hook);
export const afterEach = (hook) => scope.afterEach.push(hook);
