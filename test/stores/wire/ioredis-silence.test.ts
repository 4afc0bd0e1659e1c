/** A node of a Cluster that ioredis takes for silent: when the event loop was late, its answers wait to be read. */
import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { Cluster } from 'ioredis';
import { ConnectionGuards } from '../../../lib/stores/wire/ioredis/connection-guards.js';
import { FakeClock } from '../../support/fake-clock.js';

const SILENCE = new Error('Socket timeout. Expecting data, but didn\'t receive any in 1500ms.');

/** A connection to a node, as ioredis makes it, and the errors with which it was closed. */
function connected() {
  const clock = new FakeClock();
  const closed: (Error | undefined)[] = [];
  const stream = { bytesRead: 10, destroy: (error?: Error) => void closed.push(error) };
  const node = Object.assign(new EventEmitter(), { stream, asking: async () => 'OK', client: async () => 'OK' });
  const client = Object.assign(new EventEmitter(), { status: 'ready', isCluster: true });
  new ConnectionGuards({ clock, timeoutMs: 2_000, isClosed: () => false }).watchCluster(client as unknown as Cluster);
  client.emit('+node', node);
  node.emit('connect');
  return { clock, closed, stream };
}

describe('A node that seems to be silent', () => {
  it('is kept when its answers are read in the same turn of the event loop, because this process alone was late', async () => {
    const { clock, closed, stream } = connected();
    stream.destroy(SILENCE);
    stream.bytesRead += 5;
    await clock.settle();
    expect(closed).toEqual([]);
  });

  it('is left when nothing has come by then', async () => {
    const { clock, closed, stream } = connected();
    stream.destroy(SILENCE);
    expect(closed).toEqual([]);
    await clock.settle();
    expect(closed).toEqual([SILENCE]);
  });

  it('is left at once for any other reason', () => {
    const { closed, stream } = connected();
    const refused = new Error('READONLY');
    stream.destroy(refused);
    stream.destroy();
    expect(closed).toEqual([refused, undefined]);
  });
});
