/**
 * Turns errors of this library into answers: the one place that knows of HTTP. For HTTP, GraphQL, WebSocket and RPC.
 */
import { Catch, HttpStatus, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { throwError } from 'rxjs';
import { LockError, type LockErrorCode } from '../core/port/errors.js';

/** What clients are told. Keys and advice to programmers stay in the log. */
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

/** When it is worth another try, in seconds: locks are short, and waiting longer is what `waitMs` is for. */
const RETRY_AFTER_SECONDS = 1;

interface HttpResponse {
  readonly headersSent?: boolean;
  /** Fastify's word for the same. */
  readonly sent?: boolean;
  /** Fastify's way to the response of Node, which Express extends. */
  readonly raw?: { end(): unknown };
  end?(): unknown;
  status(code: number): unknown;
  header(name: string, value: string): unknown;
  send(body: unknown): unknown;
}

/**
 * Busy → 423 with Retry-After, store or shutdown → 503 with Retry-After, key → 400, lost and misused → 500; errors
 * with the same codes for the other transports. Logs as errors what somebody has to look at, a key that could not be made
 * of a call's arguments included; a shutdown is one warning, and a busy lock is not logged.
 *
 *     app.useGlobalFilters(new LockExceptionFilter())   // or { provide: APP_FILTER, useClass: LockExceptionFilter }
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  private readonly logger = new Logger(LockExceptionFilter.name);

  private closingTold = false;

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

  /** A busy lock is the client's to hear. All else somebody has to look at, and a stack shows where. */
  private log({ code, message, stack }: LockError): void {
    if (code === 'LOCK_TIMEOUT') return;
    if (code !== 'LOCK_CLOSED') return this.logger.error(message, stack);
    // Every deployment stops processes in which somebody waits: that is one line, however many they are.
    if (!this.closingTold) this.logger.warn(`${message} Further requests of this shutdown are answered alike, without a line.`);
    this.closingTold = true;
  }
}

function answer(statusCode: number, code: LockErrorCode, message: string): LockErrorAnswer {
  return { statusCode, code, message };
}

/** By the methods that Express and Fastify share, so that the filter needs nothing injected. */
function sendHttp(response: HttpResponse, reply: LockErrorAnswer): void {
  if (response.headersSent || response.sent) {
    // Nothing can be said any more. Nest's own filter ends such an answer too: the client would wait for the rest of it.
    if (response.raw) response.raw.end();
    else response.end?.();
    return;
  }
  response.status(reply.statusCode);
  const worthAnotherTry = reply.statusCode === HttpStatus.LOCKED || reply.statusCode === HttpStatus.SERVICE_UNAVAILABLE;
  if (worthAnotherTry) response.header('Retry-After', String(RETRY_AFTER_SECONDS));
  response.send(reply);
}

/** Like Nest's own filter: an event 'exception', which a plain WebSocket gets as a message. */
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
