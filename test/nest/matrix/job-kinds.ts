/** Handlers that nobody waits for: schedules and listeners. */
import { jest } from '@jest/globals';
import { Inject, Injectable, Logger, type INestApplication, type Type } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, Interval, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { eventually } from '../../support/eventually.js';
import { Stage } from './stage.js';
import { ForClerks, type Kind, type Variant, type Work } from './variants.js';

const TICK = 'tick';
/** Longer than any test, so that only the test fires it. */
const INTERVAL_MS = 3_600_000;

function scheduled(schedule: (name: string) => MethodDecorator): (variant: Variant) => Type {
  return ({ name, above, below, work }) => {
    @Injectable()
    class Jobs {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @schedule(name)
      @ForClerks()
      @below
      handle(): ReturnType<Work['run']> {
        return this.work.run(TICK);
      }
    }
    return Jobs;
  };
}

/** Fires a schedule; the answer is what Nest logs of it, because it tells nobody else. */
async function fired(app: INestApplication, name: string, fire: () => unknown): Promise<unknown> {
  const act = app.get(Stage).act(`${name}:${TICK}`);
  const logged = jest.mocked(Logger.prototype.error).mock.calls;
  const before = logged.length;
  const turn = ++act.fired;
  fire();
  const expected = act.fails ? 1 : 0;
  await eventually(() => {
    if (act.left < turn || logged.length < before + expected) throw new Error(`${name} has not ended`);
  }, 10_000);
  return logged.slice(before).map(([message]) => String(message));
}

const schedules = {
  // Nest does not schedule what is request-scoped, and would not subscribe to an Observable.
  lifetimes: ['singleton', 'transient'],
  returns: { promise: 'has no caller' },
  guarded: false,
  onlyId: TICK,
  placeholder: TICK,
  method: 'handle',
  modules: (_variants, handlers) => ({ imports: [ScheduleModule.forRoot()], providers: handlers }),
} satisfies Partial<Kind>;

export const cronJob: Kind = {
  ...schedules,
  name: 'a @Cron job',
  handler: scheduled((name) => Cron('0 0 1 1 *', { name })),
  start: async (app) => {
    await app.init();
    const jobs = app.get(SchedulerRegistry);
    return { call: ({ name }) => ({ answer: fired(app, name, () => jobs.getCronJob(name).fireOnTick()) }) };
  },
};

export const intervalJob: Kind = {
  ...schedules,
  name: 'an @Interval job',
  handler: scheduled((name) => Interval(name, INTERVAL_MS)),
  start: async (app) => {
    const timers = jest.spyOn(globalThis, 'setInterval');
    await app.init();
    const jobs = app.get(SchedulerRegistry);
    const ticks = new Map(timers.mock.results.map(({ value }, turn) => [value as unknown, timers.mock.calls[turn]?.[0] as () => void]));
    timers.mockRestore();
    return { call: ({ name }) => ({ answer: fired(app, name, () => ticks.get(jobs.getInterval(name))?.()) }) };
  },
};

export const eventListener: Kind = {
  name: 'an @OnEvent listener',
  lifetimes: ['singleton', 'request', 'transient'],
  // Nest would not subscribe to an Observable.
  returns: { promise: 'has no caller' },
  guarded: false,
  placeholder: '<0>',
  method: 'handle',
  handler: ({ name, scope, above, below, work }) => {
    @Injectable({ scope })
    class Listeners {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @OnEvent(name, { suppressErrors: false })
      @ForClerks()
      @below
      handle(id: string): ReturnType<Work['run']> {
        return this.work.run(id);
      }
    }
    return Listeners;
  },
  modules: (_variants, handlers) => ({ imports: [EventEmitterModule.forRoot()], providers: handlers }),
  start: async (app) => {
    await app.init();
    const events = app.get(EventEmitter2);
    return { call: ({ name }, id) => ({ answer: events.emitAsync(name, id).catch((error: Error) => ({ error: error.message })) }) };
  },
};
