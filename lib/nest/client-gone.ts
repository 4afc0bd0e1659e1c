/**
 * Tells that the client of a request has gone before its answer was complete, so that nobody waits for a lock on its
 * behalf. Asks of the response only what Express and Fastify share.
 */
import { IntrinsicException, type ExecutionContext } from '@nestjs/common';

/** What the wait is ended with. Nest writes no line in the log for it: that a client goes away is no defect. */
class ClientGoneError extends IntrinsicException {
  override readonly name = 'AbortError';
}

/** The response of Node. */
interface RawResponse {
  readonly destroyed?: boolean;
  readonly writableFinished?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** One for each response: the locked fields of one GraphQL query share a listener. */
const signals = new WeakMap<object, AbortSignal>();

/** Aborts when the client of this request goes away; undefined where there is no response to look at. */
export function clientGone(context: ExecutionContext): AbortSignal | undefined {
  const response = rawOf(responseOf(context));
  if (response === undefined) return undefined;
  let signal = signals.get(response);
  if (signal === undefined) signals.set(response, (signal = signalOf(response)));
  return signal;
}

function signalOf(response: RawResponse): AbortSignal {
  const controller = new AbortController();
  const gone = (): void =>
    controller.abort(new ClientGoneError('The client has gone while its request waited for a lock. The handler did not run.'));
  if (response.destroyed) gone();
  // Node says 'close' after a complete answer as well.
  else response.once('close', () => response.writableFinished || gone());
  return controller.signal;
}

/** GraphQL has it in the context of its resolvers, by the name that its server gives it. */
function responseOf(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getResponse();
    case 'graphql': {
      const shared = context.getArgs<[unknown, unknown, { readonly res?: unknown; readonly reply?: unknown } | undefined]>()[2];
      return shared?.res ?? shared?.reply;
    }
    default:
      return undefined;
  }
}

/** Fastify wraps what Express extends. */
function rawOf(response: unknown): RawResponse | undefined {
  if (typeof response !== 'object' || response === null) return undefined;
  const raw: unknown = 'raw' in response ? response.raw : response;
  return isRaw(raw) ? raw : undefined;
}

function isRaw(raw: unknown): raw is RawResponse {
  return typeof raw === 'object' && raw !== null && 'once' in raw && typeof raw.once === 'function';
}
