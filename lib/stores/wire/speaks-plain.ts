/**
 * Whether a server answers without TLS. To who begins with TLS a Redis without it says nothing at all, as a firewall does:
 * only a question in plain text tells the two apart. It carries no secret.
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
    // A refusal is an answer as well.
    socket.on('data', (reply) => settle(/^[+-]/.test(reply.toString('latin1'))));
    socket.on('error', () => settle(false)).on('close', () => settle(false));
  });
}
