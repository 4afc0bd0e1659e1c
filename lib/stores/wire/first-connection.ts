/**
 * The connection that a boot waits for, and why there is none: what waiting does not cure is told at once.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { RedisConnections } from './redis-connection.js';
import { causeOf, reasonOf } from './store-failure.js';

/** The user, the password or the database. */
const REFUSED = /\b(WRONGPASS|NOAUTH|ERR AUTH|invalid password|DB index is out of range|NOPERM)\b/i;
/** What OpenSSL says of an answer that is no TLS. */
const NO_TLS = /wrong version number|packet length too long|unknown protocol/i;

/** Rejects with LockStoreError. */
export async function connected(connections: RedisConnections, clock: Clock, withinMs: number): Promise<void> {
  const { commands } = connections;
  if (connections.isOpen(commands)) return;
  await new Promise<void>((resolve, reject) => {
    const settle = (): void => {
      clock.clearTimer(timer);
      stopListening();
      commands.off('error', onError);
    };
    const fail = (error: LockStoreError): void => {
      settle();
      reject(error);
    };
    const timer = clock.setTimer(() => fail(unreachable(connections, withinMs)), withinMs);
    const stopListening = connections.onOpen(commands, () => {
      settle();
      resolve();
    });
    const onError = (error: Error): void => {
      const hopeless = refusal(error, connections.node);
      if (hopeless !== undefined) fail(hopeless);
    };
    commands.on('error', onError);
    if (commands.status === 'wait') commands.connect().catch((error: Error) => (connections.lastError ??= error));
  });
}

function unreachable({ node, lastError }: RedisConnections, withinMs: number): LockStoreError {
  const reason = lastError === undefined ? 'no answer' : reasonOf(lastError);
  const message = `Locks: ${node} could not be reached within ${withinMs} ms: ${reason}. Check the 'redis' option and that the server runs.`;
  return new LockStoreError(message, { cause: causeOf(lastError), nodes: [{ node, reason }] });
}

/** undefined for what may pass. */
function refusal(error: Error, node: string): LockStoreError | undefined {
  const said = reasonOf(error);
  if (NO_TLS.test(said)) {
    const what = `${node} answered without TLS, which the 'redis' option asks for (rediss:// or tls)`;
    const message = `Locks: ${what}. Give a redis:// URL, or the port on which the server speaks TLS.`;
    return new LockStoreError(message, { cause: causeOf(error), nodes: [{ node, reason: 'it answered without TLS' }], retryable: false });
  }
  if (!REFUSED.test(said)) return undefined;
  const message = `Locks: ${node} refused the connection: ${said}. Check user, password and database of the 'redis' option.`;
  return new LockStoreError(message, { cause: causeOf(error), nodes: [{ node, reason: said }], retryable: false });
}
