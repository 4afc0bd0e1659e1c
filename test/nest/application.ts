/** Real Nest applications for the tests of the Nest layer; each is closed after the test that started it. */
import { afterEach } from '@jest/globals';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockModule } from '../../lib/nest/lock.module.js';

const running: { close(): Promise<void> }[] = [];

afterEach(() => Promise.all(running.splice(0).map((app) => app.close())));

/** An application on the embedded store. Shutdown hooks run when it is closed. */
export async function startApp(metadata: ModuleMetadata, locks = LockModule.forRoot({ embedded: true })): Promise<INestApplication> {
  return startAlone({ ...metadata, imports: [locks, ...(metadata.imports ?? [])] });
}

/** An application of these modules only; `prepare` sees it before it is initialized. */
export async function startAlone(metadata: ModuleMetadata, prepare?: (app: INestApplication) => void): Promise<INestApplication> {
  const app = await created(metadata);
  running.push(app);
  prepare?.(app);
  await app.init();
  return app;
}

/** An application for several tests, who close it themselves; not yet initialized. */
export async function created(metadata: ModuleMetadata): Promise<INestApplication> {
  const built = await Test.createTestingModule(metadata).compile();
  return built.createNestApplication({ logger: false });
}

/** A door that work waits at until the test opens it. */
export class Gate {
  private open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));

  release(): void {
    this.open();
  }
}

/** Resolves once `condition` holds; rejects after a minute. */
export async function until(condition: () => unknown, what = 'the condition'): Promise<void> {
  for (const end = Date.now() + 60_000; !(await condition()); ) {
    if (Date.now() > end) throw new Error(`${what} did not come true within a minute`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
