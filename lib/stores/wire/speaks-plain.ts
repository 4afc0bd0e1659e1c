/**
 * Finds out whether a server answers without TLS. A Redis without TLS says nothing to a client that begins with TLS, as a firewall
 * does. Only a question in plain text, a PING without any secret, tells the two apart.
 */
import { connect } from 'node:net';
import type { Clock } from '../../core/port/clock.js';

const ANSWERS_WITHIN_MS = 500;

export function speaksPlain(host: string, port: number, clock: Clock): Promise<boolean> {
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
