/**
 * Waits at boot for the first connection. An error that does not go away by waiting, such as a wrong password, rejects at once.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { Connections } from './connections.js';
import type { Address } from './server-connection.js';
import { causeOf, reasonOf } from './store-failure.js';
import { connect } from 'node:net';

/** Errors about the user, the password or the database. */
const REFUSED = /\b(WRONGPASS|NOAUTH|ERR AUTH|invalid password|DB index is out of range|NOPERM)\b/i;
/** Errors of OpenSSL about an answer that is not TLS. */
const NO_TLS = /wrong version number|packet length too long|unknown protocol/i;
const TOO_LATE = /\bETIMEDOUT\b|no answer within/;

/** Resolves when the server has answered on the connection. Rejects with LockStoreError; {@link boundedBoot} says how long it may take. */
export async function connected(connections: Connections, clock: Clock): Promise<void> {
  const { commands, node, addressWithTls: address } = connections;
  if (commands.state.isOpen) return;
  await new Promise<void>((resolve, reject) => {
    let asked = false;
    const stopHearing = commands.onError((error) => {
      const said = reasonOf(error);
      if (NO_TLS.test(said)) return reject(withoutTls(node, error));
      if (REFUSED.test(said)) return reject(refused(node, error));
      if (asked || address === undefined || !TOO_LATE.test(said)) return;
      asked = true;
      void speaksPlain(address, clock).then((plain) => plain && reject(withoutTls(node, error)));
    });
    const stopListening = commands.onOpen(() => {
      stopListening();
      stopHearing();
      resolve();
    });
    commands.start().catch((error: Error) => (connections.lastError ??= error));
  });
}

/**
 * Runs what a store does at boot. Rejects with LockStoreError when that takes longer than `withinMs`, also while a command is under way that
 * nobody answers: so `bootTimeoutMs` is a bound.
 */
export async function boundedBoot<T>(connections: Connections, clock: Clock, withinMs: number, open: () => Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = clock.setTimer(() => reject(unreachable(connections, withinMs)), withinMs);
  });
  try {
    return await Promise.race([open(), late]);
  } finally {
    if (timer !== undefined) clock.clearTimer(timer);
  }
}

function unreachable({ node, lastError }: Connections, withinMs: number): LockStoreError {
  const reason = lastError === undefined ? 'no answer' : reasonOf(lastError);
  const next = reason.includes('the function') ? 'Check that function, in the \'redis\' option.' : "Check the 'redis' option and that the server runs.";
  const message = `Locks: ${node} could not be reached within ${withinMs} ms: ${reason}. ${next}`;
  return new LockStoreError(message, { cause: causeOf(lastError), nodes: [{ node, reason }] });
}

function refused(node: string, error: Error): LockStoreError {
  const reason = reasonOf(error);
  const message = `Locks: ${node} refused the connection: ${reason}. Check user, password and database of the 'redis' option.`;
  return new LockStoreError(message, { cause: causeOf(error), nodes: [{ node, reason }], retryable: false });
}

const REPLICA = /\bREADONLY\b/;
/** The errors of servers that answer, and are not what the option says. */
const MISTAKEN: readonly [RegExp, string][] = [
  [/\b(MOVED|CROSSSLOT|CLUSTERDOWN)\b/, 'is a node of a Cluster, and redis names one Redis. Give { cluster: [...] } with some of its nodes, or a client of a Cluster.'],
  [/\bNOAUTH\b/, 'wants a password, and the \'redis\' option has none. Put one into the URL (redis://user:password@host), or give password or credentials.'],
  [REPLICA, 'is a replica, which refuses writes. Give the address of its master, or { sentinels: [...], name }.'],
];

/** What to tell of such an error at boot; undefined of any other. A replica may become the master, so trying again may help there. */
export function mistaken({ node, isCluster }: Connections, error: LockStoreError): LockStoreError | undefined {
  const found = isCluster ? undefined : MISTAKEN.find(([words]) => error.nodes.some(({ reason }) => words.test(reason)));
  return found && new LockStoreError(`Locks: ${node} ${found[1]}`, { cause: error, nodes: error.nodes, retryable: found[0] === REPLICA });
}

function withoutTls(node: string, error: Error): LockStoreError {
  const what = `${node} answers without TLS, and the 'redis' option asks for TLS (rediss:// or tls)`;
  const message = `Locks: ${what}. Give a redis:// URL, or the port on which the server speaks TLS.`;
  return new LockStoreError(message, { cause: causeOf(error), nodes: [{ node, reason: 'it answers without TLS' }], retryable: false });
}

const ANSWERS_WITHIN_MS = 500;

/**
 * Finds out whether a server answers without TLS. A Redis without TLS says nothing to a client that begins with TLS, as a firewall
 * does. Only a question in plain text, a PING without any secret, tells the two apart.
 */
function speaksPlain({ host, port }: Address, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port }, () => socket.write('PING\r\n'));
    const settle = (plain: boolean): void => {
      clock.clearTimer(timer);
      socket.destroy();
      resolve(plain);
    };
    const timer = clock.setTimer(() => settle(false), ANSWERS_WITHIN_MS);
    // An error reply is an answer too.
    socket.on('data', (reply) => settle(/^[+-]/.test(reply.toString('latin1'))));
    socket.on('error', () => settle(false)).on('close', () => settle(false));
  });
}
