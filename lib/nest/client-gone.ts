/**
 * Makes an AbortSignal that aborts when the client of a request disconnects before the response was complete, so that the
 * request stops waiting for its lock. It works with the responses of Express and of Fastify.
 */
import { IntrinsicException, type ExecutionContext } from '@nestjs/common';

/**
 * The reason of the signal, with which the wait for the lock rejects. It is an IntrinsicException, which Nest does not log: a
 * client that disconnects is not a defect.
 */
class ClientGoneError extends IntrinsicException {
  override readonly name = 'AbortError';
}

/** The part of Node's http.ServerResponse that is used here. */
interface RawResponse {
  readonly destroyed?: boolean;
  readonly writableFinished?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** One signal for each response, because the locked resolvers of one GraphQL query share a response: so one listener serves all. */
const signals = new WeakMap<object, AbortSignal>();

/** The signal of the request in `context`; undefined for transports that have no HTTP response. */
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
  // Node emits 'close' after a complete response as well.
  else response.once('close', () => response.writableFinished || gone());
  return controller.signal;
}

/** The HTTP response. In GraphQL it is in the context of the resolvers: Apollo on Express names it `res`, Mercurius `reply`. */
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

/** Node's response: Fastify's reply has it as `raw`, and the response of Express is one itself. */
function rawOf(response: unknown): RawResponse | undefined {
  if (typeof response !== 'object' || response === null) return undefined;
  const raw: unknown = 'raw' in response ? response.raw : response;
  return isRaw(raw) ? raw : undefined;
}

function isRaw(raw: unknown): raw is RawResponse {
  return typeof raw === 'object' && raw !== null && 'once' in raw && typeof raw.once === 'function';
}
