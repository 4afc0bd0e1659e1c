/** Metrics and spans of real applications, with an OpenTelemetry SDK in memory. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { context, diag, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { Subject } from 'rxjs';
import { Locked, type LockEvent, LockLostError, LockService, LockStoreError, LockTimeoutError, LockUsageError } from 'nestjs-holdfast';
import { instrumentLocks, LockTelemetryModule, type LockTelemetryModuleOptions } from 'nestjs-holdfast/telemetry';
import { TestLocks } from 'nestjs-holdfast/testing';

@Injectable()
class OrderService {
  work: () => Promise<unknown> = async () => {};

  constructor(readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(_id: string): Promise<void> {
    await this.work();
  }
}

const spanExporter = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spanExporter)] });
const tracer = tracerProvider.getTracer('test');

let metricExporter: InMemoryMetricExporter;
let reader: PeriodicExportingMetricReader;
let meterProvider: MeterProvider;
let module: TestingModule | undefined;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterAll(() => context.disable());

beforeEach(() => {
  spanExporter.reset();
  metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 3_600_000 });
  meterProvider = new MeterProvider({ readers: [reader] });
});

afterEach(async () => {
  await module?.close();
  module = undefined;
  await meterProvider.shutdown();
});

async function start(options: LockTelemetryModuleOptions = {}, ...further: readonly TestLocks[]): Promise<{ test: TestLocks; orders: OrderService }> {
  const test = new TestLocks();
  module = await Test.createTestingModule({
    imports: [...[test, ...further].map((locks) => locks.asModule()), LockTelemetryModule.forRoot({ meterProvider, tracerProvider, ...options })],
    providers: [OrderService],
  }).compile();
  await module.init();
  return { test, orders: module.get(OrderService) };
}

interface Measured {
  readonly unit: string;
  readonly attributes: object;
  readonly value: number | { readonly count: number; readonly sum: number };
}

/** What was measured of one instrument, a row for each set of attributes. */
async function measured(name: string): Promise<Measured[]> {
  await reader.forceFlush();
  const [latest] = metricExporter.getMetrics().slice(-1);
  const found = latest?.scopeMetrics.flatMap(({ metrics }) => metrics).find(({ descriptor }) => descriptor.name === name);
  return (found?.dataPoints ?? []).map(({ attributes, value }) => ({
    unit: found!.descriptor.unit,
    attributes,
    value: typeof value === 'number' ? value : { count: value.count, sum: value.sum ?? NaN },
  }));
}

const ORDER = { 'lock.template': 'order:<0>', 'lock.mode': 'write', 'lock.instance': 'default' };

const spans = (name: string): ReadableSpan[] => spanExporter.getFinishedSpans().filter((span) => span.name === name);

describe('The metrics of locks', () => {
  it('are grouped by the template of the lock, whatever the key', async () => {
    const { orders } = await start();
    await orders.pay('1');
    await orders.pay('2');
    expect(await measured('holdfast.wait.duration')).toEqual([
      { unit: 's', attributes: { ...ORDER, 'lock.outcome': 'granted' }, value: { count: 2, sum: expect.any(Number) } },
    ]);
    expect(await measured('holdfast.hold.duration')).toEqual([
      { unit: 's', attributes: { ...ORDER, 'lock.outcome': 'released' }, value: { count: 2, sum: expect.any(Number) } },
    ]);
    const everything = JSON.stringify(metricExporter.getMetrics().map(({ scopeMetrics }) => scopeMetrics));
    expect(everything).toContain('order:<0>');
    expect(everything).not.toMatch(/order:[12]/);
  });

  it('are grouped by the label of a call of LockService, of which only so many make time series', async () => {
    const { orders } = await start();
    for (let n = 0; n < 102; n += 1) await orders.locks.withLock(`row:${n}`, { label: n < 2 ? 'rows' : `row ${n}` }, () => undefined);
    await orders.locks.withLock('row:0', () => undefined);
    const groups = (await measured('holdfast.hold.duration')).map(({ attributes, value }) => [(attributes as Record<string, unknown>)['lock.template'], (value as { count: number }).count]);
    expect(groups[0]).toEqual(['rows', 2]);
    expect(groups.slice(-2)).toEqual([['other', 1], [undefined, 1]]);
    expect(groups).toHaveLength(102);
  });

  it('tell the time of waiting and of holding in seconds, and who had to wait', async () => {
    const { test, orders } = await start();
    await test.busy('order:1', { forMs: 2_500 });
    orders.work = () => test.advance(4_000);
    await orders.pay('1');
    expect((await measured('holdfast.wait.duration'))[0]!.value).toMatchObject({ sum: expect.closeTo(2.5, 1) });
    expect((await measured('holdfast.hold.duration'))[0]!.value).toMatchObject({ sum: expect.closeTo(4, 1) });
    expect(await measured('holdfast.contentions')).toEqual([{ unit: '{request}', attributes: ORDER, value: 1 }]);
  });

  it('tell how many holds are under way', async () => {
    const { orders } = await start();
    orders.work = async () => expect(await measured('holdfast.held')).toEqual([{ unit: '{hold}', attributes: ORDER, value: 1 }]);
    await orders.pay('1');
    expect(await measured('holdfast.held')).toEqual([{ unit: '{hold}', attributes: ORDER, value: 0 }]);
  });

  it('take away at its end what a hold added, whatever its attributes are then, and nothing for a hold from before they began', async () => {
    const { orders } = await start({ attributes: (event) => ({ 'event.type': event.type, waited: (event as { waitedMs: number }).waitedMs.toFixed().length }) });
    const early = await orders.locks.acquire('early');
    const stop = instrumentLocks(orders.locks, { meterProvider, tracerProvider, instance: 'late' });
    await orders.pay('1');
    await early.release();
    stop();
    const held = await measured('holdfast.held');
    expect(held.map(({ value }) => value)).toEqual([0, 0, 0]);
    expect(held).toContainEqual({ unit: '{hold}', attributes: { ...ORDER, 'lock.instance': 'late' }, value: 0 });
  });

  it('tell who leads and which terms failed, and count no wait for a candidate', async () => {
    const { test } = await start();
    const { locks } = module!.get(OrderService);
    const role = { ...ORDER, 'lock.template': 'leader:indexer' };
    await test.busy('leader:indexer');
    let fail!: () => void;
    const leadership = locks.lead('indexer', () => new Promise((_resolve, reject) => (fail = () => reject(new Error('no index')))));
    await test.advance(5_000);
    await test.free('leader:indexer');
    expect(await measured('holdfast.held')).toEqual([{ unit: '{hold}', attributes: role, value: 1 }]);
    expect(await measured('holdfast.term.failures')).toEqual([]);
    fail();
    await test.advance(100);
    expect(await measured('holdfast.term.failures')).toEqual([{ unit: '{term}', attributes: role, value: 1 }]);
    expect(await measured('holdfast.wait.duration')).toEqual([]);
    expect(await measured('holdfast.contentions')).toEqual([]);
    await leadership.stop();
  });

  it('count requests that gave up on a busy lock, with the time they waited', async () => {
    const { test, orders } = await start();
    await test.busy('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError);
    expect(await measured('holdfast.busy')).toEqual([{ unit: '{request}', attributes: ORDER, value: 1 }]);
    const [wait] = await measured('holdfast.wait.duration');
    expect(wait).toMatchObject({ attributes: { ...ORDER, 'lock.outcome': 'busy' }, value: { count: 1, sum: expect.closeTo(10, 0) } });
  });

  it('count losses once, and the hold as lost', async () => {
    const { test, orders } = await start();
    orders.work = () => test.lose('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockLostError);
    expect(await measured('holdfast.losses')).toEqual([{ unit: '{hold}', attributes: { ...ORDER, 'lock.reason': 'released-by-force' }, value: 1 }]);
    expect((await measured('holdfast.hold.duration'))[0]!.attributes).toEqual({ ...ORDER, 'lock.outcome': 'lost' });
    expect((await measured('holdfast.held'))[0]!.value).toBe(0);
  });

  it('count failures of the store, of requests and of renewals', async () => {
    const { test, orders } = await start();
    orders.work = async () => {
      test.storeDown();
      await test.advance(15_000);
      test.storeBack();
    };
    await orders.pay('1');
    test.storeDown();
    await expect(orders.pay('1')).rejects.toThrow(LockStoreError);
    const [renewal] = await measured('holdfast.renewal.failures');
    expect(renewal).toMatchObject({ unit: '{renewal}', attributes: { 'lock.mode': 'write', 'lock.instance': 'default' } });
    expect(renewal!.value).toBeGreaterThan(0);
    expect(await measured('holdfast.store.failures')).toEqual([{ unit: '{request}', attributes: ORDER, value: 1 }]);
    expect(await measured('holdfast.wait.duration')).toContainEqual(
      expect.objectContaining({ attributes: { ...ORDER, 'lock.outcome': 'failed', 'error.type': 'LOCK_STORE' } }),
    );
  });

  it('count how often the store forgot, by the reason, and the leases that were brought back to it', async () => {
    const events = new Subject<LockEvent>();
    instrumentLocks({ events }, { meterProvider, attributes: ({ key }) => ({ 'lock.key': key.length }) });
    const of = { store: 'a:6379', reason: 'flushed' } as const;
    events.next({ ...of, type: 'storeForgot', forMs: 1_000 });
    events.next({ ...of, type: 'storeRecovered', afterMs: 2_000, broughtBack: 60 });
    const attributes = { 'lock.instance': 'default', 'lock.reason': 'flushed' };
    expect(await measured('holdfast.recoveries')).toEqual([{ unit: '{recovery}', attributes, value: 1 }]);
    expect(await measured('holdfast.recovered.leases')).toEqual([{ unit: '{lease}', attributes, value: 60 }]);
  });

  it('carry the attributes that were asked for, the key too', async () => {
    const { orders } = await start({ attributes: ({ key }) => ({ 'lock.key': key }) });
    await orders.pay('1');
    expect((await measured('holdfast.wait.duration'))[0]!.attributes).toMatchObject({ ...ORDER, 'lock.key': 'order:1' });
  });

  it('tell the instances apart', async () => {
    const billing = new TestLocks({ name: 'billing' });
    const { orders } = await start({ instances: ['default', 'billing'] }, billing);
    await orders.pay('1');
    const { locks } = new TestLocks();
    const stop = instrumentLocks(locks, { instance: 'apart', meterProvider });
    await locks.withLock('k', async () => {});
    stop();
    await locks.withLock('k', async () => {});
    const waits = await measured('holdfast.wait.duration');
    expect(waits.map(({ attributes }) => attributes)).toEqual([
      { ...ORDER, 'lock.outcome': 'granted' },
      { 'lock.instance': 'apart', 'lock.mode': 'write', 'lock.outcome': 'granted' },
    ]);
    expect(waits[1]!.value).toMatchObject({ count: 1 });
  });

  it('never make a lock fail, whatever goes wrong with them', async () => {
    const { orders } = await start({
      attributes: () => {
        throw new Error('no attributes today');
      },
    });
    const said: unknown[] = [];
    const say = (...words: unknown[]): void => void said.push(words);
    diag.setLogger({ error: say, warn: say, info: say, debug: say, verbose: say });
    await orders.pay('1');
    diag.disable();
    expect(String(said)).toContain('no attributes today');
  });

  it('of a lock module that does not exist fail the boot', () => expect(start({ instances: ['biling'] })).rejects.toThrow(LockUsageError));

  it.each<[object, string]>([
    [{ instance: 'billing' }, `unknown option 'instance'; expected attributes, spans, meterProvider, tracerProvider, instances`],
    [{ instances: 'billing' }, 'instances to be an array of the names of lock modules'],
    [{ attributes: { 'lock.key': 'k' } }, 'attributes to be a function of the event, got an object'],
    [{ spans: 'false' }, 'spans to be true or false'],
    [{ meterProvider: 7 }, 'meterProvider to be an object with the method getMeter, got 7'],
  ])('are refused at once when their options cannot be: %j', (options, words) => expect(() => LockTelemetryModule.forRoot(options)).toThrow(words));
});

describe('The spans of locks', () => {
  it('are children of what the caller is doing, also of callers that had to wait for each other', async () => {
    const { orders } = await start();
    orders.work = () => new Promise((resolve) => setImmediate(resolve));
    const callers = ['a', 'b', 'c'].map((name) => tracer.startSpan(name));
    await Promise.all(callers.map((caller) => context.with(trace.setSpan(context.active(), caller), () => orders.pay('1'))));
    for (const caller of callers) {
      const { traceId, spanId } = caller.spanContext();
      for (const name of ['lock.acquire', 'lock.hold']) {
        const mine = spans(name).filter((span) => span.spanContext().traceId === traceId);
        expect(mine.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([spanId]);
      }
      caller.end();
    }
  });

  it('have the length of the wait and of the hold, the template, the fence and the method', async () => {
    const { test, orders } = await start();
    await test.busy('order:1', { forMs: 3_000 });
    orders.work = () => test.advance(2_000);
    await orders.pay('1');
    const [acquire] = spans('lock.acquire');
    const [hold] = spans('lock.hold');
    expect(acquire!.duration[0] + acquire!.duration[1] / 1e9).toBeCloseTo(3, 1);
    expect(hold!.duration[0] + hold!.duration[1] / 1e9).toBeCloseTo(2, 1);
    const common = { ...ORDER, 'lock.fence': expect.any(Number), 'lock.label': 'OrderService.pay' };
    expect(acquire!.attributes).toEqual({ ...common, 'lock.outcome': 'granted' });
    expect(hold!.attributes).toEqual({ ...common, 'lock.outcome': 'released' });
    expect(hold!.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('are in error when the lease was lost or the store failed, and not when the lock was busy', async () => {
    const { test, orders } = await start();
    orders.work = () => test.lose('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockLostError);
    await test.busy('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError);
    test.storeDown();
    await expect(orders.pay('2')).rejects.toThrow(LockStoreError);
    expect(spans('lock.hold').map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR]);
    expect(spans('lock.acquire').map(({ status, attributes }) => [attributes['lock.outcome'], status.code])).toEqual([
      ['granted', SpanStatusCode.UNSET],
      ['busy', SpanStatusCode.UNSET],
      ['failed', SpanStatusCode.ERROR],
    ]);
  });

  it('can be switched off', async () => {
    const { orders } = await start({ spans: false });
    await orders.pay('1');
    expect(spanExporter.getFinishedSpans()).toEqual([]);
    expect(await measured('holdfast.hold.duration')).toHaveLength(1);
  });
});
