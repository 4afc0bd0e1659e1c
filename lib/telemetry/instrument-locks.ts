/**
 * Makes OpenTelemetry metrics, and spans for waiting and holding, from the events of a LockService. docs/telemetry.md lists every
 * instrument and attribute.
 *
 * Events are emitted in the async context of the caller, so a span is a child of the caller's own span. A span is made when its time
 * is over, from the times in the event. Of a hold under way only the attributes are kept with which it was counted.
 */
import {
  diag,
  metrics,
  SpanStatusCode,
  trace,
  type Attributes,
  type Counter,
  type Histogram,
  type MeterProvider,
  type Tracer,
  type TracerProvider,
  type UpDownCounter,
} from '@opentelemetry/api';
import { systemClock } from '../core/port/clock.js';
import { roleOf } from '../core/key/check-key.js';
import type { LockEvent, StoreEvent } from '../core/port/lock-events.js';
import { checkOptions, expecting, flag, type NamesOf, type OptionList } from '../core/port/options.js';
import type { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE } from '../nest/lock-names.js';

/** Options of {@link instrumentLocks}. */
export interface LockTelemetryOptions {
  /**
   * Makes further attributes of metrics and spans. The key is not among the attributes, because it would make a time series for
   * each key; `({ key }) => ({ 'lock.key': key })` adds it.
   * @default none
   */
  attributes?: ((event: Exclude<LockEvent, StoreEvent>) => Attributes) | undefined;
  /**
   * Whether spans are made beside the metrics.
   * @default true
   */
  spans?: boolean | undefined;
  /**
   * Where the metrics go.
   * @default the global meter provider
   */
  meterProvider?: MeterProvider | undefined;
  /**
   * Where the spans go.
   * @default the global tracer provider
   */
  tracerProvider?: TracerProvider | undefined;
}

const SCOPE = 'nestjs-holdfast';
/** The bounds of the histograms in seconds, from a round trip to Redis to work that takes minutes. */
const BOUNDARIES = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** How many labels become values of an attribute: each makes time series. */
const MAX_LABELS = 100;

type InstrumentOptions = LockTelemetryOptions & { instance?: string | undefined };

const having = (method: string) => expecting(`an object with the method ${method}`, (given) => typeof Reflect.get(Object(given), method) === 'function');
const names: NamesOf<LockTelemetryOptions> = {
  attributes: expecting('a function of the event', (given) => typeof given === 'function'),
  spans: flag,
  meterProvider: having('getMeter'),
  tracerProvider: having('getTracer'),
};
/** The options of telemetry, without those that name lock modules. */
export const OPTIONS: OptionList = { names, example: '{ spans: false }', of: 'Telemetry of locks' };

/** Measures `locks` from now on, until the returned function is called. @throws LockUsageError for an unknown option */
export function instrumentLocks(
  locks: Pick<LockService, 'events'>,
  given: InstrumentOptions = {},
): () => void {
  checkOptions(given, { ...OPTIONS, names: { ...names, instance: true } satisfies NamesOf<InstrumentOptions> });
  const { instance = DEFAULT_INSTANCE, ...options } = given;
  const recorder = new LockRecorder(instance, options);
  const subscription = locks.events.subscribe((event) => {
    try {
      recorder.record(event);
    } catch (error) {
      // An error of the instruments must not reach the call for the lock, or end the process.
      diag.error('nestjs-holdfast: a lock event could not be recorded', error);
    }
  });
  return () => subscription.unsubscribe();
}

type EventOf<Type extends LockEvent['type']> = Extract<LockEvent, { readonly type: Type }>;

class LockRecorder {
  private readonly instruments: ReturnType<typeof createInstruments>;
  private readonly tracer: Tracer | undefined;
  private readonly more: (event: Exclude<LockEvent, StoreEvent>) => Attributes;
  private readonly holds: HoldsUnderWay;
  /** The labels that are values of `lock.template`. They stay, as their time series do. */
  private readonly labels = new Set<string>();

  constructor(
    private readonly instance: string,
    { attributes = () => ({}), spans = true, meterProvider, tracerProvider }: LockTelemetryOptions,
  ) {
    this.more = attributes;
    this.instruments = createInstruments(meterProvider);
    this.holds = new HoldsUnderWay(this.instruments.held);
    this.tracer = spans ? (tracerProvider ?? trace).getTracer(SCOPE) : undefined;
  }

  record(event: LockEvent): void {
    if (event.key === undefined) return this.storeForgot(event);
    // A nested call adds no hold in the store, so only the outermost hold is measured.
    if ('nested' in event && event.nested) return;
    // Comes first, for the attributes are the user's code, which may throw.
    if (event.type === 'released' || event.type === 'handedOff') this.holds.ended(event);
    const attributes = this.attributesOf(event);
    const { contentions, losses, renewalFailures } = this.instruments;
    switch (event.type) {
      case 'waiting':
        // Who stands for election waits for days, and that is no contention.
        if (roleOf(event.key) !== undefined) return;
        return contentions.add(1, attributes);
      case 'granted':
      case 'adopted':
        this.holds.began(event, attributes);
        return this.waited(event, { ...attributes, 'lock.outcome': event.type });
      case 'busy':
        this.instruments.busy.add(1, attributes);
        return this.waited(event, { ...attributes, 'lock.outcome': 'busy' });
      case 'cancelled':
        return this.waited(event, { ...attributes, 'lock.outcome': 'cancelled' });
      case 'failed': {
        const failed = { ...attributes, 'error.type': event.cause.code };
        if (event.cause.code === 'LOCK_STORE') this.instruments.storeFailures.add(1, attributes);
        return this.waited(event, { ...failed, 'lock.outcome': 'failed' });
      }
      case 'released':
        return this.ended(event, { ...attributes, 'lock.outcome': event.outcome });
      case 'handedOff':
        return this.ended(event, { ...attributes, 'lock.outcome': 'handed_off' });
      case 'lost':
        return losses.add(1, { ...attributes, 'lock.reason': event.cause.reason });
      case 'termFailed':
        return this.instruments.termFailures.add(1, attributes);
      case 'renewFailed':
        return renewalFailures.add(1, attributes);
    }
  }

  private storeForgot(event: StoreEvent): void {
    const attributes = { 'lock.instance': this.instance, 'lock.reason': event.reason };
    if (event.type === 'storeForgot') this.instruments.recoveries.add(1, attributes);
    else this.instruments.broughtBack.add(event.broughtBack, attributes);
  }

  private attributesOf(event: Exclude<LockEvent, StoreEvent>): Attributes {
    const { template, mode } = event;
    const attributes: Attributes = { 'lock.instance': this.instance, 'lock.mode': mode, ...this.more(event) };
    const group = template ?? this.groupOf(event.label);
    if (group !== undefined) attributes['lock.template'] ??= group;
    return attributes;
  }

  /** What stands in the place of a template for a call of LockService: its label, unless there are so many that they cannot be names of calls. */
  private groupOf(label: string | undefined): string | undefined {
    if (label === undefined || this.labels.has(label)) return label;
    if (this.labels.size >= MAX_LABELS) return 'other';
    this.labels.add(label);
    return label;
  }

  private waited(event: EventOf<'granted' | 'adopted' | 'busy' | 'cancelled' | 'failed'>, attributes: Attributes): void {
    if (roleOf(event.key) !== undefined) return;
    this.instruments.waitTime.record(event.waitedMs / 1_000, attributes);
    this.span('lock.acquire', event, event.waitedMs, attributes, event.type === 'failed' ? event.cause.message : undefined);
  }

  private ended(event: EventOf<'released' | 'handedOff'>, attributes: Attributes): void {
    this.instruments.holdTime.record(event.heldMs / 1_000, attributes);
    const isLost = event.type === 'released' && event.outcome === 'lost';
    this.span('lock.hold', event, event.heldMs, attributes, isLost ? 'the lease was lost before the hold ended' : undefined);
  }

  /** Makes a span that began `lastedMs` ago and ends now. */
  private span(name: string, event: LockEvent, lastedMs: number, attributes: Attributes, failure: string | undefined): void {
    if (!this.tracer) return;
    const endTime = systemClock.wallNow();
    const span = this.tracer.startSpan(name, { startTime: endTime - lastedMs, attributes });
    if (event.label !== undefined) span.setAttribute('lock.label', event.label);
    if ('fence' in event) span.setAttribute('lock.fence', event.fence);
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    span.end(endTime);
  }
}

/** Counts the holds under way. The end of a hold takes away what its beginning added, also when its attributes have changed by then. */
class HoldsUnderWay {
  private readonly counted = new Map<LockEvent['call'], Attributes>();

  constructor(private readonly held: UpDownCounter) {}

  began(event: LockEvent, attributes: Attributes): void {
    this.counted.set(event.call, attributes);
    this.held.add(1, attributes);
  }

  /** A hold that had begun before the measuring did was never counted. */
  ended(event: LockEvent): void {
    const attributes = this.counted.get(event.call);
    if (attributes === undefined) return;
    this.counted.delete(event.call);
    this.held.add(-1, attributes);
  }
}

function createInstruments(provider: MeterProvider | undefined) {
  const meter = (provider ?? metrics).getMeter(SCOPE);
  const seconds = (name: string, description: string): Histogram =>
    meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries: BOUNDARIES } });
  const count = (name: string, unit: string, description: string): Counter => meter.createCounter(name, { description, unit });
  const held: UpDownCounter = meter.createUpDownCounter('holdfast.held', { description: 'Holds under way in this process.', unit: '{hold}' });
  return {
    held,
    waitTime: seconds('holdfast.wait.duration', 'Time from the request for a lock to its grant or refusal.'),
    holdTime: seconds('holdfast.hold.duration', 'Time from the grant of a lock to the end of the hold.'),
    contentions: count('holdfast.contentions', '{request}', 'Requests that could not be served at once.'),
    busy: count('holdfast.busy', '{request}', 'Requests that gave up because the lock stayed busy.'),
    termFailures: count('holdfast.term.failures', '{term}', 'Terms that ended because the function of the leader failed.'),
    losses: count('holdfast.losses', '{hold}', 'Holds whose lease ended before they did.'),
    renewalFailures: count('holdfast.renewal.failures', '{renewal}', 'Renewals that got no answer and were tried again.'),
    recoveries: count('holdfast.recoveries', '{recovery}', 'Times that the store forgot who holds what, and granted nothing new for a while.'),
    broughtBack: count('holdfast.recovered.leases', '{lease}', 'Leases of this process that were brought back to a store that forgot them.'),
    storeFailures: count('holdfast.store.failures', '{request}', 'Requests that failed because the store did not respond.'),
  };
}
