/**
 * LockExceptionFilter: answers requests that failed with an error of this library, over HTTP, GraphQL, WebSocket and RPC.
 * No other file of the library maps an error to an HTTP status.
 */
import { Catch, HttpStatus, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { throwError } from 'rxjs';
import { LockError, type LockErrorCode } from '../core/port/errors.js';

/** What a client is told. The error's own message, with keys and advice to programmers, goes only to the log. */
interface LockErrorAnswer {
  readonly statusCode: number;
  readonly code: LockErrorCode;
  readonly message: string;
}

const ANSWERS: Readonly<Record<LockErrorCode, LockErrorAnswer>> = {
  LOCK_TIMEOUT: answer(HttpStatus.LOCKED, 'LOCK_TIMEOUT', 'Somebody else is working on this. Try again in a moment.'),
  LOCK_STORE: answer(HttpStatus.SERVICE_UNAVAILABLE, 'LOCK_STORE', 'This cannot be done safely now. Try again later.'),
  LOCK_CLOSED: answer(HttpStatus.SERVICE_UNAVAILABLE, 'LOCK_CLOSED', 'This server is shutting down. Try again.'),
  LOCK_KEY: answer(HttpStatus.BAD_REQUEST, 'LOCK_KEY', 'The request does not name what it wants to work on.'),
  LOCK_LOST: answer(HttpStatus.INTERNAL_SERVER_ERROR, 'LOCK_LOST', 'The work was interrupted; whether it was done is not known.'),
  LOCK_USAGE: answer(HttpStatus.INTERNAL_SERVER_ERROR, 'LOCK_USAGE', 'Internal server error'),
};

/** The Retry-After header, in seconds. It is short because most holds are, and because a longer wait is set by `waitMs`. */
const RETRY_AFTER_SECONDS = 1;

/** What is used of the response of Express, or of the reply of Fastify. */
interface HttpResponse {
  readonly headersSent?: boolean;
  /** Fastify's name for `headersSent`. */
  readonly sent?: boolean;
  /** Node's response, in Fastify; the response of Express is one itself. */
  readonly raw?: { end(): unknown };
  end?(): unknown;
  status(code: number): unknown;
  header(name: string, value: string): unknown;
  send(body: unknown): unknown;
}

/**
 * Answers HTTP requests: LockTimeoutError with 423 and Retry-After, LockStoreError and LockClosedError with 503 and
 * Retry-After, LockKeyError with 400, LockLostError and LockUsageError with 500. Over the other transports the client gets an
 * error with the same status and code. The filter logs every error but a LockTimeoutError; of LockClosedError it logs one
 * warning only.
 *
 *     app.useGlobalFilters(new LockExceptionFilter())   // or { provide: APP_FILTER, useClass: LockExceptionFilter }
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  private readonly logger = new Logger(LockExceptionFilter.name);

  private closingTold = false;

  /** Nest calls it with each LockError that a handler did not catch. */
  catch(error: LockError, host: ArgumentsHost): unknown {
    this.log(error);
    const reply = ANSWERS[error.code];
    switch (host.getType<string>()) {
      case 'http':
        return sendHttp(host.switchToHttp().getResponse<HttpResponse>(), reply);
      case 'graphql':
        // A resolver fails with the error that its filter returns.
        return Object.assign(new Error(reply.message), {
          extensions: { code: reply.code, http: { status: reply.statusCode } },
        });
      case 'ws':
        return sendWs(host.switchToWs().getClient(), reply);
      case 'rpc':
        return throwError(() => ({ status: 'error', ...reply }));
      default:
        throw error;
    }
  }

  /** Logs the error with its stack. A busy lock is normal operation, of which only the client is told. */
  private log({ code, message, stack }: LockError): void {
    if (code === 'LOCK_TIMEOUT') return;
    if (code !== 'LOCK_CLOSED') return this.logger.error(message, stack);
    // Every deployment stops processes in which requests wait for locks: one line is enough for all of them.
    if (!this.closingTold) this.logger.warn(`${message} Further requests of this shutdown are answered alike, without a line.`);
    this.closingTold = true;
  }
}

function answer(statusCode: number, code: LockErrorCode, message: string): LockErrorAnswer {
  return { statusCode, code, message };
}

/** Uses only methods that Express and Fastify share, so that the filter needs no HttpAdapterHost. */
function sendHttp(response: HttpResponse, reply: LockErrorAnswer): void {
  if (response.headersSent || response.sent) {
    // The status was sent already. The response is ended, as Nest's own filter does it, or the client would wait for the rest.
    if (response.raw) response.raw.end();
    else response.end?.();
    return;
  }
  response.status(reply.statusCode);
  const worthAnotherTry = reply.statusCode === HttpStatus.LOCKED || reply.statusCode === HttpStatus.SERVICE_UNAVAILABLE;
  if (worthAnotherTry) response.header('Retry-After', String(RETRY_AFTER_SECONDS));
  response.send(reply);
}

/** Emits the event 'exception', as Nest's own filter does; a client of plain WebSocket gets it as a JSON message. */
function sendWs(client: unknown, reply: LockErrorAnswer): void {
  const data = { status: 'error', ...reply };
  if (has(client, 'send') && 'readyState' in client && typeof client.readyState === 'number') {
    client.send(JSON.stringify({ event: 'exception', data }));
  } else if (has(client, 'emit')) {
    client.emit('exception', data);
  }
}

type Having<Name extends string> = Record<Name, (...args: unknown[]) => unknown>;

function has<Name extends string>(client: unknown, name: Name): client is Having<Name> {
  return typeof client === 'object' && client !== null && typeof Reflect.get(client, name) === 'function';
}
