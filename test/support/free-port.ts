/** Ports for servers of tests: below the range that outgoing connections use, so that nobody takes them meanwhile. */
import { createServer } from 'node:net';

const LOWEST = 10_000;
const HIGHEST = 22_000;
/** Redis Cluster's nodes talk to each other on their port + this. */
const TO_BUS_PORT = 10_000;

const given = new Set<number>();

/** A free port whose cluster bus port is free too; each is given once in this process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (given.has(port) || !(await isFree(port)) || !(await isFree(port + TO_BUS_PORT))) continue;
    given.add(port);
    return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
