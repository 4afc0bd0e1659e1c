/** A caller that goes away, seen from the server: when it has one connection less. */
import type { Server } from 'node:net';
import { eventually } from '../../support/eventually.js';

export async function hungUp(server: Server, hangUp: () => void): Promise<void> {
  const before = await connections(server);
  hangUp();
  await eventually(async () => {
    if ((await connections(server)) >= before) throw new Error('the server still has the connection');
  });
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => server.getConnections((error, count) => (error ? reject(error) : resolve(count))));
}
