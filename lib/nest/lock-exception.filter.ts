/**
 * LockExceptionFilter: answers requests that failed with an error of this library, over HTTP, GraphQL, WebSocket and RPC.
 * No other file of the library maps an error to an HTTP status.
 */
import { Catch, HttpStatus, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { throwError } from 'rxjs';
import { systemClock } from '../core/port/clock.js';
import { isLockError, type LockError, type LockErrorCode, type LockLostError } from '../core/port/errors.js';
import type { Report, ReportLevel } from '../core/port/lock-events.js';
import { logReports } from './lock-log.js';

/** What is made of an error. */
interface Answer {
  readonly statusCode: number;
  /** The status of gRPC: ABORTED, UNAVAILABLE, INVALID_ARGUMENT, INTERNAL or FAILED_PRECONDITION. */
  readonly grpc: number;
  /** How an operator should read of it; undefined for a busy lock, which is normal operation. */
  readonly level: ReportLevel | undefined;
  /** What the client is told. The error's own message, with keys and advice to programmers, goes only to the log. */
  readonly message: string;
}

const ANSWERS: Readonly<Record<LockErrorCode, Answer>> = {
  LOCK_TIMEOUT: { statusCode: 423, grpc: 10, level: undefined, message: 'Somebody else is working on this. Try again in a moment.' },
  LOCK_STORE: { statusCode: 503, grpc: 14, level: 'warning', message: 'This cannot be done safely now. Try again later.' },
  LOCK_CLOSED: { statusCode: 503, grpc: 14, level: 'warning', message: 'This server is shutting down. Try again.' },
  LOCK_KEY: { statusCode: 400, grpc: 3, level: 'warning', message: 'The request does not name what it wants to work on.' },
  LOCK_LOST: { statusCode: 500, grpc: 13, level: 'error', message: 'The work was interrupted; whether it was done is not known.' },
  LOCK_USAGE: { statusCode: 500, grpc: 9, level: 'error', message: 'Internal server error' },
};

/** What a client is sent. */
type Reply = Pick<Answer, 'statusCode' | 'message'> & { readonly code: LockErrorCode };

/** The Retry-After header, in seconds. It is short because most holds are, and because a longer wait is set by `waitMs`. */
const RETRY_AFTER_SECONDS = 1;

/** Node's response: the response of Express is one itself, the reply of Fastify has it as `raw`. */
interface RawResponse {
  end?(): unknown;
  readonly req?: { readonly httpVersionMajor?: number };
}

/** What is used of the response of Express, or of the reply of Fastify. */
interface HttpResponse extends RawResponse {
  readonly headersSent?: boolean;
  /** Fastify's name for `headersSent`. */
  readonly sent?: boolean;
  readonly raw?: RawResponse;
  status(code: number): unknown;
  header(name: string, value: string): unknown;
  send(body: unknown): unknown;
}

/** Every LockError, known by its code: it may come from another copy of this package, whose classes are others. */
abstract class AnyLockError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return isLockError(error) && Object.hasOwn(ANSWERS, error.code);
  }
}

/**
 * Answers HTTP requests: LockTimeoutError with 423 and Retry-After, LockStoreError and LockClosedError with 503,
 * Retry-After and `Connection: close`, LockKeyError with 400, LockLostError and LockUsageError with 500. Over the other transports the
 * client gets an error with the same status and code; a client of gRPC gets its status codes. Every error but a LockTimeoutError is
 * logged.
 *
 *     app.useGlobalFilters(new LockExceptionFilter())   // or { provide: APP_FILTER, useClass: LockExceptionFilter }
 */
@Catch(AnyLockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  private readonly report: Report = logReports(new Logger(LockExceptionFilter.name), systemClock);

  /** Nest calls it with each LockError that a handler did not catch. */
  catch(error: LockError, host: ArgumentsHost): unknown {
    // Whoever looks at what was done needs each key whose work was interrupted, and not one line for all in ten seconds.
    // Of work that succeeded only the loss of its lease is to be told, and the lock module has told it when it happened.
    const isTold = error.code === 'LOCK_LOST' && (error as Partial<LockLostError>).outcome?.status === 'fulfilled';
    const { code, key } = error;
    const { statusCode, grpc, level, message } = ANSWERS[code];
    if (level !== undefined && !isTold) this.report({ kind: code === 'LOCK_LOST' ? `${code} ${key}` : code, level, message: error.message });
    const reply: Reply = { statusCode, code, message };
    switch (host.getType<string>()) {
      case 'http':
        return sendHttp(host.switchToHttp().getResponse<HttpResponse>(), reply);
      case 'graphql':
        // A resolver fails with the error that its filter returns. The response does not get its status, as `http` among the extensions would do
        // it: other fields may have been served, so nobody on the way may send the request again because of a 503.
        return Object.assign(new Error(message), { extensions: { code, statusCode } });
      case 'ws':
        return sendWs(host.switchToWs().getClient(), reply);
      case 'rpc':
        return throwError(() => (isGrpc(host) ? { code: grpc, message } : { status: 'error', ...reply }));
      default:
        throw error;
    }
  }
}

/** Uses only methods that Express and Fastify share, so that the filter needs no HttpAdapterHost. */
function sendHttp(response: HttpResponse, reply: Reply): void {
  if (response.headersSent || response.sent) {
    // The status was sent already. The response is ended, as Nest's own filter does it, or the client would wait for the rest.
    (response.raw ?? response).end?.();
    return;
  }
  response.status(reply.statusCode);
  const isUnavailable = reply.statusCode === HttpStatus.SERVICE_UNAVAILABLE;
  // A client that keeps its connection would ask this same process again, which shuts down or has no store. HTTP/2 knows no such header.
  if (isUnavailable && (response.raw ?? response).req?.httpVersionMajor === 1) response.header('Connection', 'close');
  if (isUnavailable || reply.statusCode === HttpStatus.LOCKED) response.header('Retry-After', String(RETRY_AFTER_SECONDS));
  response.send(reply);
}

/** Emits the event 'exception', as Nest's own filter does; a client of plain WebSocket gets it as a JSON message. */
function sendWs(client: unknown, reply: Reply): void {
  const data = { status: 'error', ...reply };
  if (has(client, 'send') && 'readyState' in client && typeof client.readyState === 'number') {
    client.send(JSON.stringify({ event: 'exception', data }));
  } else if (has(client, 'emit')) {
    client.emit('exception', data);
  }
}

/** True if this is a call of gRPC: Nest gives its handlers the message, the metadata and the call, which alone can send metadata. */
function isGrpc(host: ArgumentsHost): boolean {
  return has(host.getArgByIndex(2), 'sendMetadata');
}

type Having<Name extends string> = Record<Name, (...args: unknown[]) => unknown>;

function has<Name extends string>(client: unknown, name: Name): client is Having<Name> {
  return typeof client === 'object' && client !== null && typeof Reflect.get(client, name) === 'function';
}
