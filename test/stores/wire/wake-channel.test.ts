/** The subscriber connection: what it hears, and how it is replaced when it hears nothing. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { Listening, ServerConnection } from '../../../lib/stores/wire/server-connection.js';
import { WakeChannel, type PushedGrant, type WakeListener } from '../../../lib/stores/wire/wake-channel.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { forAll } from '../../support/started.js';
import { connectBy } from '../../support/test-client.js';

let proxy: FlakyProxy;
let channel: WakeChannel;
let heard: (PushedGrant | string)[];
let connects: number;

const listener: WakeListener = {
  granted: (grant) => heard.push(grant),
  wake: ({ kind, key, id }) => heard.push(`${kind} ${key} ${id}`),
  forgot: () => 0,
  listening: () => heard.push('listening'),
  refused: (reason) => heard.push(`refused ${reason}`),
};
const server = forAll(startRedis);
beforeEach(async () => {
  proxy = await startFlakyProxy(server.port);
  heard = [];
  connects = 0;
  const connections = connectBy(proxy.url)(2_000, systemClock);
  const connect = (listening: Listening): ServerConnection => {
    connects++;
    const connection = connections.subscribe(listening);
    // Another try follows the end of one.
    connection.events.on('end', () => connects++);
    return connection;
  };
  channel = new WakeChannel(connect, ['c'], systemClock);
  await channel.open(listener);
});
afterEach(async () => {
  channel.close();
  await proxy.stop();
});

const publish = (message: string) => server.command('PUBLISH', 'c', message);

describe('the wake channel', () => {
  it('reads every message that scripts send, and passes over all others', async () => {
    for (const message of ['', 'x p.1', 'constructor p.1 k', 'c p.1 k 1', 't p.4 %7Bk%7D 1', 'l p.2 k 1', 'g p.3 1795236887128570 4 r 1795236888628 1500 1 k 1']) {
      await publish(message);
    }
    const grant = { key: 'k 1', id: 'p.3', fence: 1795236887128570, fences: 4, mode: 'read', end: 1795236888628, lengthMs: 1500, contended: true };
    await eventually(() => expect(heard).toEqual(['listening', 'contended k 1 p.1', 'ask {k} 1 p.4', 'lost k 1 p.2', grant]));
  });

  it('leaves no connection of a first try behind when it is opened once more', async () => {
    await channel.open(listener);
    await publish('c p.1 k 1');
    await eventually(() => expect(heard).toEqual(['listening', 'listening', 'contended k 1 p.1']));
    await eventually(async () => expect(await server.command('PUBSUB', 'NUMSUB', 'c')).toEqual(['c', 1]));
  });

  it('comes back when the server was away for longer, and tries no faster than its pause', async () => {
    await proxy.cut();
    const before = connects;
    const startedAt = performance.now();
    await eventually(() => expect(connects).toBeGreaterThanOrEqual(before + 3));
    expect(performance.now() - startedAt).toBeGreaterThan(100);
    await proxy.heal();
    await eventually(() => expect(heard).toEqual(['listening', 'listening']));
  });

  it('is replaced when nothing has come since an answer told a grant first, because it is deaf', async () => {
    proxy.freeze();
    channel.missed();
    await eventually(() => {
      channel.check();
      expect(connects).toBe(2);
    });
    proxy.thaw();
    await eventually(() => expect(heard).toEqual(['listening', 'listening']));
  });

  it('is not replaced when the message was only late', async () => {
    channel.missed();
    await publish('g p.1 1 1 w 1 1 0');
    await eventually(() => expect(heard).toHaveLength(2));
    await new Promise((resolve) => setTimeout(resolve, 600));
    channel.check();
    await publish('c p.2 k 1');
    await eventually(() => expect(heard).toContain('contended k 1 p.2'));
    expect(connects).toBe(1);
  });
});
