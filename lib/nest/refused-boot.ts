/**
 * A boot that is refused leaves no connection open: whoever boots gets no application that could be closed, and open connections would keep
 * the process alive. Nest makes the providers of several lock modules side by side, so each opens its connections without knowing whether
 * another one is about to fail.
 */
import type { ModulesContainer } from '@nestjs/core';
import type { LockService } from '../lock.service.js';

/** The lock modules of one application, until all of its providers are made. */
interface Boot {
  readonly opened: Set<LockService>;
  refused: boolean;
  /** A module that is loaded later may fail without an end of the others. */
  isComplete: boolean;
}

const boots = new WeakMap<ModulesContainer, Boot>();

function bootOf(modules: ModulesContainer): Boot {
  let boot = boots.get(modules);
  if (boot === undefined) boots.set(modules, (boot = { opened: new Set(), refused: false, isComplete: false }));
  return boot;
}

/** Opens the connections of one lock module. When that fails, or another lock module has failed meanwhile, they are closed. */
export async function openFor(modules: ModulesContainer, locks: LockService): Promise<LockService> {
  const boot = bootOf(modules);
  try {
    await locks.open();
  } catch (error) {
    await closed([locks]);
    throw error;
  }
  boot.opened.add(locks);
  // Nest reports the error of the other module, and waits for nothing here.
  if (boot.refused && !boot.isComplete) await closed(boot.opened);
  return locks;
}

/** Makes one provider of a lock module. When that fails, what other lock modules have opened is closed. */
export async function orRefuse<T>(modules: ModulesContainer, make: () => T | Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (!bootOf(modules).isComplete) await refuse(modules);
    throw error;
  }
}

/** Runs a hook of the boot, which begins when all providers are made. When it fails, all lock modules are closed. */
export async function orClose(modules: ModulesContainer, hook: () => void | Promise<void>): Promise<void> {
  bootOf(modules).isComplete = true;
  try {
    await hook();
  } catch (error) {
    await refuse(modules);
    throw error;
  }
}

async function refuse(modules: ModulesContainer): Promise<void> {
  const boot = bootOf(modules);
  boot.refused = true;
  await closed(boot.opened);
}

/** A close that fails must not hide why the boot did. */
async function closed(all: Iterable<LockService>): Promise<void> {
  await Promise.allSettled([...all].map((locks) => locks.close()));
}
