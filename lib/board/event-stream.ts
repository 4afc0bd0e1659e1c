/**
 * Sends a stream of events to a browser, on the response itself. Nest's own way, `@Sse`, leads each event through the interceptors of
 * the application: one that wraps results would wrap each event, and one that keeps results would answer with a single event.
 */
import { Subscription, type Observable } from 'rxjs';
import { systemClock } from '../core/port/clock.js';

/** The part of Node's http.ServerResponse that is used here. The response of Express is one. */
interface RawResponse {
  readonly req: { readonly method?: string | undefined };
  readonly headersSent: boolean;
  readonly destroyed?: boolean | undefined;
  setHeader(name: string, value: HeaderValue): unknown;
  setTimeout(ms: number): unknown;
  /** False when the text is kept in memory until the client has read more; 'drain' follows then. */
  write(text: string): boolean;
  end(): unknown;
  on(event: 'drain' | 'close', listener: () => void): unknown;
}

/** The part of Fastify's reply that is used here. */
interface FastifyReply {
  readonly raw: RawResponse;
  getHeaders(): Readonly<Record<string, HeaderValue | undefined>>;
  /** Makes Fastify leave the response to the caller. */
  hijack(): unknown;
}

type HeaderValue = number | string | string[];

export type EventResponse = RawResponse | FastifyReply;

/** The headers that `@Sse` sends: no cache, no compression and no proxy may keep events back. */
const HEADERS: Readonly<Record<string, string>> = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'private, no-cache, no-store, must-revalidate, max-age=0, no-transform',
  Pragma: 'no-cache',
  Expires: '0',
  'X-Accel-Buffering': 'no',
};

/** How long the browser waits before it connects again, in ms. */
const RECONNECT_MS = 500;

/** Sends each of `events`, texts of one line, until they complete or the client has gone. It returns before the response has begun. */
export function sendEvents(response: EventResponse, events: Observable<string>): void {
  const raw = 'raw' in response ? response.raw : response;
  const viewing = new Subscription();
  raw.on('close', () => viewing.unsubscribe());
  if ('raw' in response) response.hijack();
  // The response begins in the next turn, because an interceptor may still set headers. On Express it may fail as well, and be answered for.
  systemClock.nextTurn(() => {
    if (raw.headersSent || raw.destroyed || viewing.closed) return;
    // Fastify writes the headers that hooks have set for its reply only when it sends the response itself.
    const ofHooks = 'raw' in response ? response.getHeaders() : {};
    for (const [name, value] of Object.entries({ ...ofHooks, ...HEADERS })) if (value !== undefined) raw.setHeader(name, value);
    // A client that has asked for the headers only would keep its connection busy for as long as the events last.
    if (raw.req.method === 'HEAD') return void raw.end();
    // The server's time limit for idle connections may be shorter than the time between two events.
    raw.setTimeout(0);
    raw.write('\n');
    viewing.add(events.subscribe(writerOf(raw)));
  });
}

/**
 * Writes events as fast as the client reads them. Of the events that come while it does not read, only the last one is kept: each view
 * of the locks replaces those before it.
 */
function writerOf(raw: RawResponse): { next(event: string): void; complete(): void } {
  let sent = 0;
  let isFull = false;
  let kept: string | undefined;
  const next = (event: string): void => {
    if (isFull) return void (kept = event);
    sent += 1;
    isFull = !raw.write(`id: ${sent}\nretry: ${RECONNECT_MS}\ndata: ${event}\n\n`);
  };
  raw.on('drain', () => {
    isFull = false;
    const event = kept;
    kept = undefined;
    if (event !== undefined) next(event);
  });
  return { next, complete: () => void raw.end() };
}
